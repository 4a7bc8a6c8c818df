"""Where the emulator answers otherwise than the real API server does, and why it stays so."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KnownDifference:
    """The answer to one question differs, at these places and at no other.

    :param places: `status`, `warnings`, or a path such as `body.metadata`; all below it may differ.
    :param real: what the real server answers, in a few words.
    :param emulated: what the emulator answers.
    """

    question: str
    places: tuple[str, ...]
    real: str
    emulated: str
    reason: str


_PATCHES = (
    "Slipway sends merge patches. Who sends another kind notices in the sandbox that it was not tried there."
)

KNOWN_DIFFERENCES: tuple[KnownDifference, ...] = (
    KnownDifference("json patch", ("status", "body"), "200, patched", "415", _PATCHES),
    KnownDifference(
        "strategic merge patch",
        ("body.message",),
        "415, names JSON patch, merge patch and apply",
        "415, names the merge patch",
        _PATCHES,
    ),
    KnownDifference("apply patch", ("status", "body"), "200, applied", "415", _PATCHES),
    KnownDifference(
        "patch as plain JSON",
        ("body.message",),
        "415, names JSON patch, merge patch and apply",
        "415, names the merge patch",
        _PATCHES,
    ),
    KnownDifference(
        "body is of another type",
        ("body.message",),
        "415, names JSON, YAML and protobuf",
        "415, names JSON",
        "Slipway and its clients send JSON.",
    ),
    KnownDifference(
        "wrong kind",
        ("status", "body"),
        "201, the kind is corrected",
        "400",
        "A wrong kind is a mistake of the sender, which shall be seen.",
    ),
    KnownDifference(
        "list limit",
        ("body",),
        "one object, and where to go on",
        "all objects",
        "The sandbox has few objects, and nothing of Slipway reads lists in parts.",
    ),
)


@dataclass(frozen=True)
class KnownStatusDifference:
    """At one place the status says something else in these situations, and in no other.

    :param place: a path such as `conditions.Ready`; all below it may differ.
    """

    mode: str
    place: str
    situations: tuple[str, ...]
    real: str
    emulated: str
    reason: str


_BEFORE_PODS = (
    "Both were recorded: KServe says nothing until it sees the first pod. "
    "The emulator says nothing until there are routes."
)

KNOWN_STATUS_DIFFERENCES: tuple[KnownStatusDifference, ...] = (
    KnownStatusDifference(
        "Standard",
        "modelStatus.transitionStatus",
        ("the first pods start",),
        "InProgress",
        "an empty text",
        _BEFORE_PODS,
    ),
    KnownStatusDifference(
        "Standard",
        "modelStatus.states",
        ("the first pods start",),
        "no active model, target Pending",
        "nothing",
        _BEFORE_PODS,
    ),
)
