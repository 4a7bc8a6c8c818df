"""Everything that can go wrong in a release, as one tree.

The four branches say what to do: fix something, nothing, release again later, or let Airflow retry.

SlipwayError
  + UserError                     a person must change something; retrying does not help
  |   - SpecError                   the release file does not say what it should
  |   - UnknownModelError           this model has no release file
  |   - InputMissingError           a file that training should have left is not there
  |   - ModelInvalidError           the model file cannot be read, converted or run
  |   - GoldenSetError              the golden set has the wrong columns, shapes or types
  |   - VersionInvalidError         the version is not a positive whole number
  |   - AlreadyReleasedError        this version has been released before
  |   - VersionRejectedError        this version is rejected
  |   - StartNeedsPersonError       the model was rolled back, so a person must start the next release
  |   - ReleaseNotNowError          a freeze or a closed window, and the release file says to refuse
  |   - VersionConflictError        other bytes are published under the same version
  |   - VersionDeletedError         the version's files were deleted; its number cannot be used again
  |   - ReleaseInProgressError      another release of the same model is under way
  |   - ForeignChangeError          someone else changed what the release is driving
  |   - ArrivalRefusedError         a version of the model registry cannot be imported
  |   - WebhookRefusedError         a request that isn't proved to be the model registry's webhook
  |   - HandedOtherwiseError        a task got another release than the one that was admitted
  |   - LeaseTakenOverError         a later try of the same task drives the canary now
  |   - CredentialsRefusedError     Triton, or a proxy before it, refuses the credentials
  |   - ServerRefusedError          Triton refuses a request, whatever the model
  |   - StreamsUnreadError          the content of a streamed model's answers would not be checked
  |   - StoreUnfitError             the object store lacks guarantees that locks and records need
  + GateRefusedError              the release worked as designed: this version must not continue
  |   - ParityRefusedError          the converted model's answers differ from its source's
  |   - SigningRefusedError         the version is not signed with the key that the release file names
  |   - SignedWithoutIdentityError  its files are signed, but not its model and version
  |   - LoadRefusedError            Triton cannot load the version
  |   - SignatureRefusedError       inputs or outputs differ from those of the stable version
  |   - SmokeTestRefusedError       it crashes, or fails, its own Triton
  |   - ValidationRefusedError      accuracy or agreement on the golden set is too low
  |   - BenchmarkRefusedError       too slow, or slower than the stable version
  |   - MirrorRefusedError          copies of users' requests got other answers than from stable
  |   - CanaryRefusedError          the judge saw the candidate do worse on live traffic
  |   - CanaryEndedError            somebody else ended the canary: its guard, or a person
  |   - RaiseRefusedError           the record does not show what a higher weight needs
  |   - VersionDeclinedError        a person declined the release
  + GateInconclusiveError         undecided whether this version may continue: release it again, later
  |   - BenchmarkInconclusiveError  the stable version misses the limits as well
  |   - SmokeTestInconclusiveError  a check on its own Triton was inconclusive
  |   - ValidationInconclusiveError too few golden rows to decide
  |   - SignatureInconclusiveError  the live version's tensors are unknown
  |   - MirrorInconclusiveError     too few copies of users' requests could be compared
  + TransientError                a dependency did not answer; trying again may help
      - StoreUnavailableError       S3 or SQS
      - ClusterUnavailableError     the Kubernetes API
      - ServerUnavailableError      Triton
      - ModelNotLoadedError         Triton does not have the requested model ready
      - RegistryUnavailableError    the model registry
      - MetricsUnavailableError     the judge's metrics source
      - TimedOutError               something did not happen within its limit
      - PodStartError               a pod did not start, because of the cluster
      - CanaryPausedError           a person has paused the canary
      - ReleaseHeldError            a freeze, or no open release window

Operators turn the first three branches into a failure without retries and let Airflow retry the fourth.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_TEXT_LIMIT = 4000


class SlipwayError(Exception):
    """The root of the tree; every error says what, and where it helps: expected, found and what to do.

    `what` names the thing that is wrong. `expected` and `found` are fragments, `remedy` is a sentence.
    """

    def __init__(
        self,
        what: str,
        *,
        expected: str | None = None,
        found: str | None = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(_clipped(what))
        self.what = _clipped(what)
        self.expected = None if expected is None else _clipped(expected)
        self.found = None if found is None else _clipped(found)
        self.remedy = None if remedy is None else _clipped(remedy)

    def __str__(self) -> str:
        sentences = [_sentence(self.what)]
        facts = [
            f"{label} {text.strip().rstrip('.')}"
            for label, text in (("expected", self.expected), ("found", self.found))
            if text
        ]
        if facts:
            joined = "; ".join(facts)
            sentences.append(_sentence(joined[0].upper() + joined[1:]))
        if self.remedy:
            sentences.append(_sentence(f"Remedy: {self.remedy}"))
        return " ".join(sentences)

    def in_short(self) -> str:
        """Return what was wrong and what was found, for another error's `found`, which has its own remedy.

        That nothing was found is said by `what` alone.
        """
        if not self.found or self.found == "none":
            return self.what
        return f"{self.what.strip().rstrip('.')}: {self.found.strip().rstrip('.')}"

    def __reduce__(self) -> tuple[Any, ...]:
        # The default would call the class with `what` alone; the keywords travel in the state.
        return (type(self), (self.what,), self.__dict__)

    def to_dict(self) -> dict[str, str | None]:
        """Return `{"kind", "what", "expected", "found", "remedy"}`, for records, XComs and pods' results."""
        return {
            "kind": type(self).__name__,
            "what": self.what,
            "expected": self.expected,
            "found": self.found,
            "remedy": self.remedy,
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> SlipwayError:
        """Rebuild an error from `to_dict`'s form; an unknown kind becomes a plain `SlipwayError`."""
        kind = str(value.get("kind") or "")
        found_class = next((error for error in all_errors() if error.__name__ == kind), None)
        what = str(value.get("what") or kind or "an error without a description")
        return (found_class or SlipwayError)(
            what,
            expected=_text_or_none(value.get("expected")),
            found=_text_or_none(value.get("found")),
            remedy=_text_or_none(value.get("remedy")),
        )


class UserError(SlipwayError):
    """A person must change something; trying again changes nothing."""


class SpecError(UserError):
    """The release file does not say what it should."""


class UnknownModelError(UserError):
    """This model has no release file, or its name is invalid."""


class InputMissingError(UserError):
    """A file that training should have left is not there."""


class ModelInvalidError(UserError):
    """The model file cannot be read, converted or run."""


class GoldenSetError(UserError):
    """The golden set has the wrong columns, shapes or types."""


class VersionInvalidError(UserError):
    """The version is not a positive whole number."""


class AlreadyReleasedError(UserError):
    """This version has been released before."""


class VersionRejectedError(UserError):
    """This version was rejected, and the rejection still applies."""


class StartNeedsPersonError(UserError):
    """The model was rolled back, and this release was not started by a person."""


class ReleaseNotNowError(UserError):
    """A freeze applies, or no release window is open, and the release file says to refuse rather than wait."""


class VersionConflictError(UserError):
    """Other bytes are published under the same version."""


class VersionDeletedError(UserError):
    """The version's files were deleted; its number cannot be used again."""


class ReleaseInProgressError(UserError):
    """Another release of the same model is under way."""


class ForeignChangeError(UserError):
    """Someone else changed what the release is driving."""


class ArrivalRefusedError(UserError):
    """A version of the model registry cannot be imported because of its files, its number or its state."""


class WebhookRefusedError(UserError):
    """A request claims to be a webhook of the model registry, without proof."""


class HandedOtherwiseError(UserError):
    """A task got another release than its record says was admitted; that says nothing about the version."""


class LeaseTakenOverError(UserError):
    """A later try of the same task drives the canary now."""


class CredentialsRefusedError(UserError):
    """Triton, or a proxy before it, refuses the connection's token, headers or certificate."""


class ServerRefusedError(UserError):
    """Triton refuses a request, whatever the model: an unknown setting, or model control is off."""


class StreamsUnreadError(UserError):
    """The model is called over streams, and the canary's judge would not see the answers inside them."""


class StoreUnfitError(UserError):
    """The object store accepts conditional writes but ignores the conditions, so locks and records are not safe."""


class GateRefusedError(SlipwayError):
    """The release worked as designed: this version must not continue."""


class ParityRefusedError(GateRefusedError):
    """The converted model's answers differ from its source's."""


class SigningRefusedError(GateRefusedError):
    """The version is not signed with the key that the release file names."""


class SignedWithoutIdentityError(GateRefusedError):
    """The key has signed the version's files, but not its manifest, so their model and version are unproved.

    Versions that were published before signatures covered the manifest are of this kind.
    """


class LoadRefusedError(GateRefusedError):
    """Triton cannot load the version."""


class SignatureRefusedError(GateRefusedError):
    """Inputs or outputs differ from those of the stable version."""


class SmokeTestRefusedError(GateRefusedError):
    """The candidate harms its own server: a load, a boundary input, an instance, or its memory."""


class ValidationRefusedError(GateRefusedError):
    """Accuracy or agreement on the golden set is too low."""


class BenchmarkRefusedError(GateRefusedError):
    """The candidate is too slow, or slower than the stable version."""


class MirrorRefusedError(GateRefusedError):
    """The candidate fails on copies of users' requests, or its answers differ from stable's."""


class CanaryRefusedError(GateRefusedError):
    """The judge saw the candidate do worse on live traffic."""


class CanaryEndedError(GateRefusedError):
    """Somebody else ended the canary: its guard, or a person."""


class RaiseRefusedError(GateRefusedError):
    """The record does not show what a higher weight needs."""


class VersionDeclinedError(GateRefusedError):
    """A person declined.

    :param by: the person; "" if the name is not known.
    """

    def __init__(
        self,
        what: str,
        *,
        by: str = "",
        expected: str | None = None,
        found: str | None = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(what, expected=expected, found=found, remedy=remedy)
        self.by = by


class GateInconclusiveError(SlipwayError):
    """A gate could not decide whether this version may continue: neither passed nor refused.

    Trying again at once would meet the same; what disturbs the gate must go first.
    """


class BenchmarkInconclusiveError(GateInconclusiveError):
    """The candidate misses limits of the benchmark that the stable version misses as well, in the same run."""


class SmokeTestInconclusiveError(GateInconclusiveError):
    """A smoke test's check was inconclusive, and the release file refuses that."""


class ValidationInconclusiveError(GateInconclusiveError):
    """The golden set has too few rows to decide, and the release file refuses undecided versions."""


class SignatureInconclusiveError(GateInconclusiveError):
    """The live version's inputs and outputs are unknown, so it is unknown whether its clients can continue."""


class MirrorInconclusiveError(GateInconclusiveError):
    """Fewer copies of users' requests than required could be compared."""


class TransientError(SlipwayError):
    """A dependency did not answer; trying again may help."""


class StoreUnavailableError(TransientError):
    """S3 or SQS could not be reached, or refuses more requests for a while."""


class ClusterUnavailableError(TransientError):
    """The Kubernetes API could not be reached, or refuses more requests for a while."""


class ServerUnavailableError(TransientError):
    """Triton could not be reached."""


class ModelNotLoadedError(TransientError):
    """Triton does not have the requested model or version ready."""


class RegistryUnavailableError(TransientError):
    """The model registry could not be reached, or refuses more requests for a while."""


class MetricsUnavailableError(TransientError):
    """The judge's metrics source could not be read."""


class TimedOutError(TransientError):
    """Something did not happen within its limit."""


class PodStartError(TransientError):
    """A pod did not start because of the cluster, for example because no node has room or an image is not pulled."""


class CanaryPausedError(TransientError):
    """A person has paused the canary: no weight is raised until it is resumed."""


class ReleaseHeldError(TransientError):
    """A freeze applies, or no release window is open: no release starts and no weight is raised until that ends."""


def all_errors(root: type[SlipwayError] = SlipwayError) -> Iterator[type[SlipwayError]]:
    """Yield `root` and every class below it, parents first."""
    yield root
    for child in root.__subclasses__():
        yield from all_errors(child)


def _sentence(text: str) -> str:
    text = text.strip()
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def _clipped(text: str) -> str:
    """Return the text, cut to `_TEXT_LIMIT` characters: a quoted text can have any length."""
    return text if len(text) <= _TEXT_LIMIT else f"{text[:_TEXT_LIMIT]}… ({len(text)} characters)"


def _text_or_none(value: object) -> str | None:
    return None if value is None else str(value)
