"""What a release's pod is: which part of the release file describes it, its command, and where it leaves its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from slipway_core.errors import SlipwayError

if TYPE_CHECKING:
    from slipway_core.gates.validation.kinds.custom import Scoring
    from slipway_core.spec.release_file import Benchmark, Conversion, MirrorComparison, SmokeTest


@dataclass(frozen=True)
class ReleasePod:
    """One pod of a release, as a value.

    :param kind: what sort of pod it is, by which a NetworkPolicy finds it.
    :param stage: its name in the record, with which the pod's own name begins.
    :param settings: the part of the release file that describes it: image, resources, limits.
    :param command: returns the program and its arguments; called when the stage has begun, for it looks up connections.
    :param result_key: where it writes its ``result.json``.
    :param manifest_sha256: digest of the manifest whose version this stage proves; None before there is one.
    :param attempt: which measurement it makes; each after the first has a pod of its own.
    :param labels: labels of its own, beside those that every pod of a release has.
    :param ports: returns the ports on which it listens, by name; called like `command`.
    :param leaves_out: errors after which the release goes on without what this pod was to make.
    :param needless: returns why no pod is needed, since what it would make is there, or None where it is not.
    """

    kind: str
    stage: str
    settings: Conversion | SmokeTest | Benchmark | MirrorComparison | Scoring
    command: Callable[[], Sequence[str]]
    result_key: str
    manifest_sha256: str | None = None
    attempt: int = 1
    labels: Mapping[str, str] = field(default_factory=dict)
    ports: Callable[[], Mapping[str, int]] = dict
    leaves_out: tuple[type[SlipwayError], ...] = ()
    needless: Callable[[], str | None] = lambda: None
