"""What can go wrong with a Triton server, as one tree. The two branches say whether trying again may help.

TritonError
  + UserError                   a person must change something; trying again changes nothing
  |   - CredentialsRefusedError   the server, or a proxy before it, does not take who asks
  |   - ServerRefusedError        the server does not do what it is asked, whatever the model
  |   - LoadRefusedError          the server has the request and will not load the model
  |   - ModelInvalidError         the model answers a request with an error
  + TransientError              no answer; trying again may help
      - ServerUnavailableError    the server, or its model repository, is out of reach
      - ModelNotLoadedError       the model, or the version of it, is not ready
      - TimedOutError             something did not happen within its limit

Operators turn the first branch into a failure without retries and let Airflow retry the second.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_TEXT_LIMIT = 4000


class TritonError(Exception):
    """The root of the tree; every error says what, and where it helps: expected, found and what to do.

    `what` names the thing that is wrong. `expected` and `found` are fragments, `remedy` is a sentence. What is quoted
    in them is cut after 4,000 characters.
    """

    def __init__(
        self, what: str, *, expected: str | None = None, found: str | None = None, remedy: str | None = None
    ) -> None:
        super().__init__(_clipped(what))
        self.what = _clipped(what)
        self.expected = None if expected is None else _clipped(expected)
        self.found = None if found is None else _clipped(found)
        self.remedy = None if remedy is None else _clipped(remedy)

    def __str__(self) -> str:
        known = (("expected", self.expected), ("found", self.found))
        facts = "; ".join(f"{label} {text.strip().rstrip('.')}" for label, text in known if text)
        remedy = f"Remedy: {self.remedy}" if self.remedy else ""
        return " ".join(
            _sentence(text) for text in (self.what, facts[:1].upper() + facts[1:], remedy) if text
        )

    def in_short(self) -> str:
        """Return what was wrong and what was found, for another error's `found`."""
        if not self.found or self.found == "none":
            return self.what
        return f"{self.what.strip().rstrip('.')}: {self.found.strip().rstrip('.')}"

    def __reduce__(self) -> tuple[Any, ...]:
        # The default would call the class with `what` alone; the keywords travel in the state.
        return (type(self), (self.what,), self.__dict__)

    def to_dict(self) -> dict[str, str | None]:
        """Return `{"kind", "what", "expected", "found", "remedy"}`, as a trigger's event carries it."""
        return {
            "kind": type(self).__name__,
            "what": self.what,
            "expected": self.expected,
            "found": self.found,
            "remedy": self.remedy,
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> TritonError:
        """Rebuild an error from `to_dict`'s form; an unknown kind becomes a plain `TritonError`."""
        found = next((one for one in all_errors() if one.__name__ == value.get("kind")), TritonError)
        texts = {name: value.get(name) for name in ("expected", "found", "remedy")}
        return found(
            str(value.get("what") or "an error without a description"),
            **{name: None if text is None else str(text) for name, text in texts.items()},
        )


class UserError(TritonError):
    """A person must change something; trying again changes nothing."""


class CredentialsRefusedError(UserError):
    """The server, or a proxy before it, does not take the credentials."""


class ServerRefusedError(UserError):
    """The server does not do what it is asked, whatever the model."""


class LoadRefusedError(UserError):
    """The server has the request and will not load the model; what served before serves on."""


class ModelInvalidError(UserError):
    """The model answers a request with an error."""


class TransientError(TritonError):
    """The server did not answer; trying again may help."""


class ServerUnavailableError(TransientError):
    """The server, or its model repository, could not be reached."""


class ModelNotLoadedError(TransientError):
    """The server does not have the model, or the version of it, ready that is asked for."""


class TimedOutError(TransientError):
    """Something did not happen within its limit."""


def all_errors(root: type[TritonError] = TritonError) -> Iterator[type[TritonError]]:
    """Yield `root` and every class below it, parents first."""
    yield root
    for child in root.__subclasses__():
        yield from all_errors(child)


def _sentence(text: str) -> str:
    text = text.strip()
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def _clipped(text: str) -> str:
    return text if len(text) <= _TEXT_LIMIT else f"{text[:_TEXT_LIMIT]}… ({len(text)} characters)"
