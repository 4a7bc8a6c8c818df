"""Everything that can go wrong in a release, as one tree.

The four branches say who has to act: a person, nobody, somebody later, or Airflow by trying again.

SlipwayError
  + UserError                     a person must change something; trying again changes nothing
  |   - SpecError                   the release file does not say what it should
  |   - UnknownModelError           there is no release file for this model
  |   - InputMissingError           a file that training should have left is not there
  |   - ModelInvalidError           the model file cannot be read, converted or run
  |   - GoldenSetError              the golden set has the wrong columns, shapes or types
  |   - VersionInvalidError         the version is not a positive whole number
  |   - AlreadyReleasedError        this version has been released before
  |   - VersionRejectedError        this version was rejected, and nobody has lifted that
  |   - StartNeedsPersonError       the model was rolled back: a person starts what comes after it
  |   - ReleaseNotNowError          a freeze or a closed window, which the release file does not wait for
  |   - VersionConflictError        other bytes are published under the same version
  |   - VersionDeletedError         the version's files were deleted; its number cannot be used again
  |   - ReleaseInProgressError      another release of the same model is under way
  |   - ForeignChangeError          someone else changed what the release is driving
  |   - ArrivalRefusedError         a version of the model registry that cannot be brought in
  |   - WebhookRefusedError         a request that is no webhook of the model registry
  |   - HandedOtherwiseError        a task was handed another release than was admitted
  |   - LeaseTakenOverError         a later try of the same task drives the canary now
  |   - CredentialsRefusedError     Triton, or a proxy before it, does not take who asks
  |   - ServerRefusedError          Triton does not do what it is asked, whatever the model
  |   - StreamsUnreadError          nobody would read what the answers of a streamed model hold
  |   - StoreUnfitError             the object store does not keep what locks and records rely on
  + GateRefusedError              the release worked as meant: this version shall not go further
  |   - ParityRefusedError          the converted model answers otherwise than its source
  |   - SigningRefusedError         the version is not signed with the key that the release file names
  |   - SignedWithoutIdentityError  its files are signed, but not for which model and version they are
  |   - LoadRefusedError            Triton cannot load the version
  |   - SignatureRefusedError       inputs or outputs differ from those of the stable version
  |   - SmokeTestRefusedError       it crashes, or fails, a Triton of its own
  |   - ValidationRefusedError      accuracy or agreement on the golden set is too low
  |   - BenchmarkRefusedError       too slow, or slower than the stable version
  |   - MirrorRefusedError          copies of users' requests were answered otherwise than by stable
  |   - CanaryRefusedError          the judge saw the candidate do worse on live traffic
  |   - CanaryEndedError            somebody else ended the canary: its guard, or a person
  |   - RaiseRefusedError           the record does not show what a higher weight needs
  |   - VersionDeclinedError        a person who was asked said no
  + GateInconclusiveError         undecided whether this version may continue: release it again, later
  |   - BenchmarkInconclusiveError  the stable version misses the limits as well
  |   - SmokeTestInconclusiveError  a check on its own Triton could not be made
  |   - ValidationInconclusiveError too few golden rows to tell
  |   - SignatureInconclusiveError  nobody tells the tensors of the version that is live
  |   - MirrorInconclusiveError     too few copies of users' requests could be compared
  + TransientError                a dependency did not answer; trying again may help
      - StoreUnavailableError       S3 or SQS
      - ClusterUnavailableError     the Kubernetes API
      - ServerUnavailableError      Triton
      - ModelNotLoadedError         Triton does not have the model ready that is asked for
      - RegistryUnavailableError    the model registry
      - MetricsUnavailableError     the source of the judge's numbers
      - TimedOutError               something did not happen within its limit
      - PodStartError               a pod did not come up, for what the cluster around it lacks or does
      - CanaryPausedError           a person has paused the canary
      - ReleaseHeldError            there is a freeze, or no release window is open

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
        """Return what was wrong and what was found, for another error's `found`, which has a remedy of its own.

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
    """There is no release file for this model, or its name can be none."""


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
    """This version was rejected, and nobody has lifted that."""


class StartNeedsPersonError(UserError):
    """The model was rolled back, and no person has started this release."""


class ReleaseNotNowError(UserError):
    """There is a freeze, or no release window is open, and the release file says that this is not waited for."""


class VersionConflictError(UserError):
    """Other bytes are published under the same version."""


class VersionDeletedError(UserError):
    """The version's files were deleted; its number cannot be used again."""


class ReleaseInProgressError(UserError):
    """Another release of the same model is under way."""


class ForeignChangeError(UserError):
    """Someone else changed what the release is driving."""


class ArrivalRefusedError(UserError):
    """A version of the model registry cannot be brought in: its files, its number or its state forbid it."""


class WebhookRefusedError(UserError):
    """A request that says it is a webhook of the model registry, and does not prove it."""


class HandedOtherwiseError(UserError):
    """A task was handed another release than its record says was admitted; nothing is said of the version."""


class LeaseTakenOverError(UserError):
    """A later try of the same task drives the canary now."""


class CredentialsRefusedError(UserError):
    """Triton, or a proxy before it, does not take who asks: the connection's token, headers or certificate."""


class ServerRefusedError(UserError):
    """Triton does not do what it is asked, whatever the model: an unknown setting, model control that is off."""


class StreamsUnreadError(UserError):
    """The model is asked over streams, and nothing would read the answers inside them while its canary is judged."""


class StoreUnfitError(UserError):
    """The object store takes conditions and does not keep them, so neither locks nor records hold."""


class GateRefusedError(SlipwayError):
    """The release worked as meant: this version shall not go further."""


class ParityRefusedError(GateRefusedError):
    """The converted model answers otherwise than its source."""


class SigningRefusedError(GateRefusedError):
    """The version is not signed with the key that the release file names."""


class SignedWithoutIdentityError(GateRefusedError):
    """The key has signed the version's files, but not its manifest: for which model and version they are is not sure.

    Versions that were published before signatures covered the manifest are of this kind.
    """


class LoadRefusedError(GateRefusedError):
    """Triton cannot load the version."""


class SignatureRefusedError(GateRefusedError):
    """Inputs or outputs differ from those of the stable version."""


class SmokeTestRefusedError(GateRefusedError):
    """The candidate harms a server of its own: a load, a boundary input, an instance, or its memory."""


class ValidationRefusedError(GateRefusedError):
    """Accuracy or agreement on the golden set is too low."""


class BenchmarkRefusedError(GateRefusedError):
    """The candidate is too slow, or slower than the stable version."""


class MirrorRefusedError(GateRefusedError):
    """The candidate fails on, or answers otherwise, copies of the requests that stable answers to users."""


class CanaryRefusedError(GateRefusedError):
    """The judge saw the candidate do worse on live traffic."""


class CanaryEndedError(GateRefusedError):
    """Somebody else ended the canary: its guard, or a person."""


class RaiseRefusedError(GateRefusedError):
    """The record does not show what a higher weight needs."""


class VersionDeclinedError(GateRefusedError):
    """A person who was asked said no.

    :param by: the person; "" where the name is not known.
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
    """A gate could not tell whether this version may go on, however often it looked: neither passed nor refused.

    Trying again at once would meet the same; what disturbs the gate must go first.
    """


class BenchmarkInconclusiveError(GateInconclusiveError):
    """The candidate misses limits of the benchmark that the stable version misses as well, in the same run."""


class SmokeTestInconclusiveError(GateInconclusiveError):
    """A smoke test's check was inconclusive, and the release file refuses that."""


class ValidationInconclusiveError(GateInconclusiveError):
    """The golden set has too few rows to tell, and the release file asks to be sure."""


class SignatureInconclusiveError(GateInconclusiveError):
    """A version is live whose inputs and outputs nobody tells: whether its clients can go on is not known."""


class MirrorInconclusiveError(GateInconclusiveError):
    """Fewer copies of users' requests than asked for could be compared."""


class TransientError(SlipwayError):
    """A dependency did not answer; trying again may help."""


class StoreUnavailableError(TransientError):
    """S3 or SQS could not be reached, or refuses more requests for a while."""


class ClusterUnavailableError(TransientError):
    """The Kubernetes API could not be reached, or refuses more requests for a while."""


class ServerUnavailableError(TransientError):
    """Triton could not be reached."""


class ModelNotLoadedError(TransientError):
    """Triton does not have the model, or the version of it, ready that is asked for."""


class RegistryUnavailableError(TransientError):
    """The model registry could not be reached, or refuses more requests for a while."""


class MetricsUnavailableError(TransientError):
    """The source of the judge's numbers could not be read."""


class TimedOutError(TransientError):
    """Something did not happen within its limit."""


class PodStartError(TransientError):
    """A pod did not come up, for what the cluster around it lacks or does: no node has room, an image is not pulled."""


class CanaryPausedError(TransientError):
    """A person has paused the canary: no weight is raised until it is resumed."""


class ReleaseHeldError(TransientError):
    """There is a freeze, or no release window is open: nothing begins, and no weight is raised, until that ends."""


def all_errors(root: type[SlipwayError] = SlipwayError) -> Iterator[type[SlipwayError]]:
    """Yield `root` and every class below it, parents first."""
    yield root
    for child in root.__subclasses__():
        yield from all_errors(child)


def _sentence(text: str) -> str:
    text = text.strip()
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def _clipped(text: str) -> str:
    """Return the text, cut where nobody reads on: what is quoted may be as long as whoever wrote it liked."""
    return text if len(text) <= _TEXT_LIMIT else f"{text[:_TEXT_LIMIT]}… ({len(text)} characters)"


def _text_or_none(value: object) -> str | None:
    return None if value is None else str(value)
