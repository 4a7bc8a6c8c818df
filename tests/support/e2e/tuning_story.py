"""A version that is served with a setting which costs latency: model_tuning finds a better one, and changes nothing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from slipway_core.bucket_layout import evidence_prefix, staged_name, staged_prefixes, tuning_id
from slipway_sandbox.demo.airflow_client import DagRun
from tests.support.e2e.running_sandbox import RunningSandbox

TUNING_DAG = "model_tuning"


@dataclass(frozen=True)
class Tuned:
    """A tuning that has ended.

    :param evidence: what it left beside the version, by name.
    :param left_on_staging: what of its copies is left in the staging server's repository.
    :param release_file: the model's, before and after.
    """

    run: DagRun
    note: str
    evidence: dict[str, bytes]
    left_on_staging: list[str]
    release_file: tuple[str, str]

    @property
    def report(self) -> dict[str, Any]:
        """What was concluded."""
        report: dict[str, Any] = json.loads(self.evidence["report.json"])
        return report


def tuned(sandbox: RunningSandbox, model: str, version: int) -> Tuned:
    """Tune a version by the form, as the model's release file says, and wait for the end."""
    file = sandbox.releases / f"{model}.yaml"
    before = file.read_text()
    run = sandbox.filled_in(TUNING_DAG, {"model": model, "version": version})
    prefix = evidence_prefix(model, version, tuning_id(run.run_id))
    copies = (staged_prefixes(staged_name(model, role))[0] for role in ("trial", "reference"))
    return Tuned(
        run=run,
        note=sandbox.airflow.note(TUNING_DAG, run.run_id),
        evidence={key.removeprefix(prefix): sandbox.read(key) for key in sandbox.keys(prefix)},
        left_on_staging=[key for prefix in copies for key in sandbox.keys(prefix)],
        release_file=(before, file.read_text()),
    )
