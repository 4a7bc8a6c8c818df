"""`kind: custom`: what the scorer's pod finds in the object store, its command, and its result as scores.

What the pod reads and writes lies under `scoring/` of the release's evidence: `scorer.py` as it lay beside the release
file, and `given.npz`. By `gathered.json`, beside the records, a task that comes back from the triggerer knows what was
asked: the pod may not write there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.validation.asking import Answered
from slipway.release_run import ReleaseRun
from slipway_core.bucket_layout import gathered_key
from slipway_core.documents.document_form import first_problem
from slipway_core.errors import TransientError, UserError
from slipway_core.gates.validation.golden_set import GoldenSet
from slipway_core.gates.validation.health import HealthCheck
from slipway_core.gates.validation.kinds.custom import CustomScores, CustomValidation, custom_scores
from slipway_core.gates.validation.other_outputs.result import OutputResult
from slipway_core.gates.validation.scoring.given import pack_given
from slipway_core.gates.validation.scoring.returned import read_returned
from slipway_core.spec.parts import size_of
from slipway_core.value_types import Sha256
from slipway_rules.scoring import SCORES_FILE, SCORES_LIMIT_BYTES

_GATHERED_LIMIT_BYTES = 32 << 20
# Of the pod's memory, for the scorer; the rest is the program's that reads and sends.
_SCORERS_SHARE = 0.75
_MEBIBYTE = 1024 * 1024


class _Health(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    check: str
    status: str
    summary: str


class _Output(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    output: str
    status: str
    measure: str
    summary: str


class Gathered(BaseModel):
    """What was asked of both versions before the pod was started.

    It decides, and what it binds the pod to must not be the pod's to write: it lies beside the records, and names its
    release.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    release_id: str
    version: int
    given_sha256: Sha256
    scorer_sha256: Sha256
    rows: int
    compared: bool
    health: tuple[_Health, ...]
    other_outputs: tuple[_Output, ...] = ()
    latency_ms: tuple[float, ...]
    stable_latency_ms: tuple[float, ...]

    def checks(self) -> tuple[HealthCheck, ...]:
        """Return the output health."""
        return tuple(HealthCheck.from_dict(one.model_dump()) for one in self.health)

    def outputs(self) -> tuple[OutputResult, ...]:
        """Return what was found of the outputs that are not scored."""
        return tuple(OutputResult.from_dict(one.model_dump()) for one in self.other_outputs)


def scoring_prefix(release_run: ReleaseRun) -> str:
    """Return the key below which all of it lies."""
    return f"{release_run.evidence_prefix}scoring/"


def keep_for_scorer(
    store: ModelStoreHook,
    release_run: ReleaseRun,
    golden: GoldenSet,
    answered: Answered,
    stable: Answered | None,
    health: Sequence[HealthCheck],
    other_outputs: Sequence[OutputResult],
) -> None:
    """Write what the pod is given, and last what was gathered.

    :raises SpecError: the release file was read without its scorer.
    :raises GoldenSetError: the answers are too large.
    """
    prefix, validation = scoring_prefix(release_run), _custom(release_run)
    scorer = release_run.spec.named_file(validation.scorer).encode()
    given = pack_given(golden, answered.outputs, None if stable is None else stable.outputs)
    gathered = Gathered(
        release_id=release_run.release_id,
        version=release_run.version,
        given_sha256=hashlib.sha256(given).hexdigest(),
        scorer_sha256=hashlib.sha256(scorer).hexdigest(),
        rows=golden.rows,
        compared=stable is not None,
        health=tuple(_Health.model_validate(one.to_dict()) for one in health),
        other_outputs=tuple(_Output.model_validate(one.to_dict()) for one in other_outputs),
        latency_ms=answered.latency_ms,
        stable_latency_ms=() if stable is None else stable.latency_ms,
    )
    store.write(f"{prefix}scorer.py", scorer, content_type="text/x-python; charset=utf-8")
    store.write(f"{prefix}given.npz", given)
    store.write_json(gathered_key(release_run.model), gathered.model_dump(mode="json"))


def read_gathered(store: ModelStoreHook, release_run: ReleaseRun) -> Gathered:
    """Return what was gathered before the pod was started.

    :raises UserError: it is of another form, or of another release.
    :raises InputMissingError: it is not there.
    """
    key = gathered_key(release_run.model)
    content = store.require(
        key, remedy="clear the task so that it runs again", most_bytes=_GATHERED_LIMIT_BYTES
    )
    try:
        gathered = Gathered.model_validate_json(content)
    except ValidationError as error:
        raise UserError(
            f"{store.uri(key)} does not have the expected form",
            expected="what this task writes before its pod starts",
            found=first_problem(error),
            remedy="Clear the task so that it runs again.",
        ) from error
    if (gathered.release_id, gathered.version) != (release_run.release_id, release_run.version):
        raise UserError(
            f"{store.uri(key)} belongs to another release",
            expected=f"{release_run.release_id}, version {release_run.version}",
            found=f"{gathered.release_id}, version {gathered.version}",
            remedy="Clear the task so that it runs again.",
        )
    return gathered


def scorer_command(release_run: ReleaseRun, gathered: Gathered) -> list[str]:
    """Return `score_answers.py` with what it is given and its limits."""
    validation, place = _custom(release_run), release_run.uri(scoring_prefix(release_run))
    place = place.rstrip("/")
    memory = int(size_of(validation.scoring.resources.memory) * _SCORERS_SHARE) // _MEBIBYTE
    return [
        "score_answers.py",
        "--given",
        f"{place}/given.npz",
        "--given-sha256",
        gathered.given_sha256,
        "--scorer",
        f"{place}/scorer.py",
        "--scorer-sha256",
        gathered.scorer_sha256,
        "--rows",
        str(gathered.rows),
        "--confidence",
        str(validation.confidence),
        "--timeout-s",
        str(validation.scoring.timeout_s),
        "--memory-mib",
        str(max(memory, 64)),
        "--destination",
        place,
    ]


def scored(
    store: ModelStoreHook,
    release_run: ReleaseRun,
    golden: GoldenSet,
    gathered: Gathered,
    result: Mapping[str, Any],
) -> CustomScores:
    """Return what the pod returned as scores.

    :raises UserError: it is of another form than the pod's program writes.
    :raises TransientError: the pod scored the answers of an earlier try of this task.
    """
    key = f"{scoring_prefix(release_run)}{SCORES_FILE}"
    content = store.require(
        key, remedy="clear the task so that it runs again", most_bytes=2 * SCORES_LIMIT_BYTES
    )
    returned = read_returned(result, content, golden.rows)
    if returned.given_sha256 != gathered.given_sha256:
        raise TransientError(
            "the pod scored the answers of an earlier try of this task",
            expected=f"answers of SHA-256 {gathered.given_sha256}",
            found=f"SHA-256 {returned.given_sha256}",
            remedy="it will be retried",
        )
    return custom_scores(golden, returned, _custom(release_run), compared=gathered.compared)


def _custom(release_run: ReleaseRun) -> CustomValidation:
    validation = release_run.spec.validation
    assert isinstance(validation, CustomValidation)  # noqa: S101  who calls has looked
    return validation
