"""One version through the gates as the tasks of a release take it: the operators' methods, the pods' programs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from airflow_provider_triton.operators import TritonLoadModelOperator
from benchmarks.good_models.family import Family, Landed
from benchmarks.good_models.pods import run_pod
from slipway.cli.checking.linting import lint_file
from slipway.hooks.s3_store import ModelStoreHook
from slipway.hooks.triton import STAGING_CONN_ID
from slipway.operators.admission.golden_set import require_askable_golden_set
from slipway.operators.convert import ConvertModelOperator
from slipway.operators.pod import ReleasePodOperator
from slipway.operators.publish import PublishModelOperator
from slipway.operators.smoke_test.run import RunSmokeTestOperator
from slipway.operators.staging import LoadCandidateOperator, PrepareStagingOperator
from slipway.operators.validate import ValidateModelOperator
from slipway.release_record.record import ReleaseRecord
from slipway.release_run import ReleaseRun, StableVersion
from slipway_core.errors import SlipwayError
from slipway_core.record.kinds import ReleaseStarted
from slipway_core.spec.release_file import parse_release_spec

GATES = ("lint", "admit", "convert", "publish", "smoke_test", "validate")
_CONTEXT: Any = {}


@dataclass
class Outcome:
    """What the gates said of one version.

    :ivar refused_by: the gate that let it no further; "": none did.
    :ivar reason: why.
    :ivar seconds: by gate.
    :ivar remarks: what the smoke test and the validation said beyond a pass.
    """

    model: str
    version: int
    refused_by: str = ""
    reason: str = ""
    seconds: dict[str, float] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)


class Release:
    """The release of one version; the version before it, if any, is the stable one."""

    def __init__(self, store: ModelStoreHook, family: Family, version: int, folder: Path) -> None:
        self._store, self._family, self._folder = store, family, folder
        spec = parse_release_spec(family.text(), f"{family.name}.yaml")
        stable = version - 1
        uri = f"s3://{store.bucket}/models/{spec.model}/{stable}/repository"
        self._run = ReleaseRun(
            release_id=f"{spec.model}-{version}",
            model=spec.model,
            version=version,
            bucket=store.bucket,
            spec=spec,
            stable=StableVersion(version=stable, storage_uri=uri) if stable else None,
        )
        self._rendered = self._run.model_dump_json()
        ReleaseRecord(store, spec.model, version, self._run.release_id).append(ReleaseStarted())
        self._manifest_sha256 = ""
        self.outcome = Outcome(spec.model, version)

    def through_all_gates(self, landed: Landed) -> Outcome:
        """Take it as far as the gates let it."""
        gates: Mapping[str, Callable[[Landed], None]] = {
            "lint": self._lint,
            "admit": self._admit,
            "convert": self._convert,
            "publish": self._publish,
            "smoke_test": self._smoke_test,
            "validate": self._validate,
        }
        for name in GATES:
            with self._gate(name):
                gates[name](landed)
            if self.outcome.refused_by:
                break
        return self.outcome

    @contextmanager
    def _gate(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        except Exception as error:  # whatever ends a release here ends one of a good model
            self.outcome.refused_by = name
            self.outcome.reason = f"{type(error).__name__}: {error}"[:1500]
        self.outcome.seconds[name] = round(time.monotonic() - began, 1)

    def _lint(self, landed: Landed) -> None:
        """Ask `slipway lint` with what a person has on disk before the upload."""
        release_file, golden = self._folder / f"{self._run.model}.yaml", self._folder / "golden.npz"
        release_file.write_text(self._family.text())
        golden.write_bytes(landed.golden_file())
        for path, content in landed.files.items():
            place = self._folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
        source = self._run.spec.source
        linted = lint_file(release_file, None if source.is_folder else self._folder / source.location, golden)
        if linted.error is not None:
            raise linted.error

    def _admit(self, landed: Landed) -> None:
        """Lay down what training leaves, and ask what `admit` asks of the golden set."""
        incoming, source = self._run.incoming_prefix, self._run.spec.source
        folder = source.location if source.is_folder else ""
        for path, content in landed.files.items():
            self._store.write(incoming + folder + path, content)
        self._store.write(incoming + source.golden_file, landed.golden_file())
        self._store.write_json(
            f"{incoming}ready.json", {"model": self._run.model, "version": self._run.version}
        )
        require_askable_golden_set(self._store, self._run.spec, self._run.version)

    def _convert(self, landed: Landed) -> None:
        self._in_a_pod(ConvertModelOperator(task_id="convert", release=self._rendered))

    def _publish(self, landed: Landed) -> None:
        publish = PublishModelOperator(task_id="publish", release=self._rendered)
        self._manifest_sha256 = publish.run(_CONTEXT)

    def _smoke_test(self, landed: Landed) -> None:
        smoke_test = RunSmokeTestOperator(
            task_id="smoke_test", release=self._rendered, manifest_sha256=self._manifest_sha256
        )
        self._in_a_pod(smoke_test)
        report = self._store.read_json(f"{self._run.evidence_prefix}smoke_test.json") or {}
        self.outcome.remarks += [
            f"smoke test: {one['summary']} ({one['status']})"
            for one in report["verdict"]["checks"]
            if one["status"] not in ("pass", "off")
        ]

    def _validate(self, landed: Landed) -> None:
        """Stage and load both versions, and ask them the golden set."""
        prepared = PrepareStagingOperator(task_id="prepare", release=self._rendered).run(_CONTEXT)
        loads: list[TritonLoadModelOperator] = [
            LoadCandidateOperator(
                task_id="load",
                release=self._rendered,
                manifest_sha256=prepared["manifest_sha256"],
                **_load_of(prepared["candidate"]),
            )
        ]
        if prepared["baseline"] is not None:
            loads.append(TritonLoadModelOperator(task_id="load_baseline", **_load_of(prepared["baseline"])))
        for load in loads:
            load.execute(_CONTEXT)
        staging = json.dumps(prepared)
        ValidateModelOperator(task_id="validate", release=self._rendered, staging=staging).run(_CONTEXT)
        report = self._store.read_json(f"{self._run.evidence_prefix}validation.json") or {}
        if report.get("outcome") != "pass":
            self.outcome.remarks.append(f"validation: {report.get('outcome')}: {report.get('found')}")

    def _in_a_pod(self, operator: ReleasePodOperator) -> None:
        """Run the step's program as a process, and have the operator judge what it left."""
        pod = operator.describe(self._run)
        said = run_pod(pod.settings.image, pod.command(), self._credentials())
        result = self._store.read_json(pod.result_key)
        if result is None:
            raise SlipwayError(f"the pod of {pod.kind} has left no result", found=said[-600:])
        operator.conclude(self._run, result)

    def _credentials(self) -> dict[str, str]:
        client = self._store.client
        keys = client._request_signer._credentials.get_frozen_credentials()
        return {
            "AWS_ACCESS_KEY_ID": keys.access_key,
            "AWS_SECRET_ACCESS_KEY": keys.secret_key,
            "AWS_DEFAULT_REGION": client.meta.region_name,
            "AWS_ENDPOINT_URL": client.meta.endpoint_url,
        }


def _load_of(staged: Mapping[str, Any]) -> dict[str, Any]:
    """Return a load operator's fields as the DAG's templates render them."""
    return {
        "model_name": staged["name"],
        "config": json.dumps(staged["config"]),
        "members": json.dumps(staged["members"]),
        "triton_conn_id": STAGING_CONN_ID,
    }
