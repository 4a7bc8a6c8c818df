"""A release's steps from training to staging, done as the DAG's operators do them, and a staging server for them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_triton.operators import TritonLoadModelOperator
from slipway.hooks.s3_store import ModelStoreHook
from slipway.hooks.triton import STAGING_CONN_ID, TritonHook
from slipway.operators.convert import ConvertModelOperator
from slipway.operators.publish import PublishModelOperator
from slipway.operators.staging import LoadCandidateOperator, PrepareStagingOperator, Staging
from slipway.registry.registry import ModelRegistry
from slipway.release_record.record import ReleaseRecord
from slipway.release_run import ReleaseRun, StableVersion
from slipway_core.publishing.manifest import Manifest
from slipway_core.publishing.variants import ONLY
from slipway_core.record.kinds import ReleaseStarted
from slipway_core.spec.release_file import parse_release_spec
from slipway_sandbox.host.images import build_image, image_name
from slipway_sandbox.services.triton import TritonPorts, TritonServer
from tests.support.serving.triton_install import triton_install
from tests.support.store.connections import triton_connection

POD_SCRIPTS = Path(__file__).resolve().parents[3] / "include" / "pod_scripts"
CONTEXT: Any = {}
_AWS = {
    "AWS_ACCESS_KEY_ID": "slipway-test",
    "AWS_SECRET_ACCESS_KEY": "slipway-test",
    "AWS_DEFAULT_REGION": "us-east-1",
}
_CONVERSION_LIMIT_S = 120


class Release:
    """One release's steps up to staging, as the DAG would have them run."""

    def __init__(
        self,
        store: ModelStoreHook,
        release_file: str,
        version: int,
        stable: int | None = None,
        folder: Path | None = None,
    ) -> None:
        """Open it.

        :param folder: where the files lie that the release file names, if it names any.
        """
        self.store = store
        spec = parse_release_spec(release_file, "release.yaml", folder)
        uri = f"s3://{store.bucket}/models/{spec.model}/{stable}/repository"
        self.release_run = ReleaseRun(
            release_id=f"{spec.model}-{version}",
            model=spec.model,
            version=version,
            bucket=store.bucket,
            spec=spec,
            stable=None if stable is None else StableVersion(version=stable, storage_uri=uri),
        )
        self.rendered = self.release_run.model_dump_json()
        record = ReleaseRecord(store, spec.model, version, self.release_run.release_id)
        record.append(ReleaseStarted(stable_storage_uri=uri))

    def land(self, files: Mapping[str, bytes], golden: bytes) -> None:
        """Training leaves the files, the golden set and, last, ready.json."""
        incoming, source = self.release_run.incoming_prefix, self.release_run.spec.source
        folder = source.location if source.is_folder else ""
        for path, content in files.items():
            self.store.write(incoming + folder + path, content)
        self.store.write(incoming + source.golden_file, golden)
        ready = {"model": self.release_run.model, "version": self.release_run.version}
        self.store.write_json(f"{incoming}ready.json", ready)

    def convert(self, variant: str = ONLY) -> dict[str, Any]:
        """Run the converter with the arguments that the operator gives its pod; return what it left."""
        operator = ConvertModelOperator(
            task_id="convert", release=self.rendered, namespace="models", variant=variant
        )
        release_run = operator.release_run
        pod = operator.describe(release_run)
        program, *arguments = pod.command()
        image = build_image(image_name(release_run.spec.conversion.image))
        subprocess.run(
            [program, *arguments],
            executable=str(POD_SCRIPTS / program),
            env={
                **_AWS,
                "PATH": os.pathsep.join([str(image / "bin"), os.defpath]),
                "AWS_ENDPOINT_URL": self.store.client.meta.endpoint_url,
            },
            check=False,
            timeout=_CONVERSION_LIMIT_S,
        )
        result = self.store.read_json(pod.result_key)
        assert result["error"] is None, result["error"]
        operator.conclude(release_run, result)
        return dict(result)

    def publish(self, variants: Sequence[str] = ()) -> Manifest:
        """Publish what was converted; of several variants, those that are named."""
        chosen = json.dumps(variants) if variants else ""
        PublishModelOperator(task_id="publish", release=self.rendered, variants=chosen).run(CONTEXT)
        return ModelRegistry(self.store).require(self.release_run.model, self.release_run.version)

    def stage(self) -> Staging:
        """Copy candidate and stable version to staging, and load both, as templates render it."""
        prepared = PrepareStagingOperator(task_id="prepare", release=self.rendered).run(CONTEXT)
        staging = Staging.model_validate(prepared)
        candidate, baseline = prepared["candidate"], prepared["baseline"]
        loads: list[TritonLoadModelOperator] = [
            LoadCandidateOperator(
                task_id="load",
                release=self.rendered,
                manifest_sha256=staging.manifest_sha256,
                **load_of(candidate),
            )
        ]
        if baseline is not None:
            loads.append(TritonLoadModelOperator(task_id="load_baseline", **load_of(baseline)))
        for load in loads:
            load.execute(CONTEXT)
        return staging


@contextmanager
def staging_server(
    store: ModelStoreHook, folder: Path, server: type[TritonServer] = TritonServer
) -> Iterator[TritonHook]:
    """A staging server over the store's bucket, while the context lasts; nothing is loaded on it yet.

    Its log is `triton.log` in the folder.
    """
    ports = TritonPorts.free()
    one = server(
        triton_install(),
        f"s3://{store.client.meta.endpoint_url}/{store.bucket}/staging",
        ports,
        mode="explicit",
        environment=_AWS,
        log_path=folder / "triton.log",
        exit_timeout_s=1,
    )
    store.write("staging/README", b"A folder of the object store is there when something is in it.")
    one.start()
    try:
        one.wait_ready(30)
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("AIRFLOW_CONN_TRITON_STAGING", triton_connection(ports.http, ports.grpc))
            yield TritonHook(timeout_s=60)
    finally:
        one.stop()


def load_of(staged: dict[str, Any]) -> dict[str, Any]:
    """The load operator's fields as the DAG's templates render them."""
    config, members = json.dumps(staged["config"]), json.dumps(staged["members"])
    fields = {"model_name": staged["name"], "config": config, "members": members, "timeout_s": 60.0}
    return {**fields, "triton_conn_id": STAGING_CONN_ID}
