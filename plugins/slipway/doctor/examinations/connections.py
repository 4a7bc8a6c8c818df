"""The connections and variables of Slipway: there, readable, and about what they should be."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar
from urllib.parse import urlsplit

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from slipway.deployment.settings import problems
from slipway.doctor.examination import EXAMINATIONS, Examination
from slipway.doctor.installation import Installation
from slipway_core.doctor.line import Line
from slipway_core.spec.release_file import ReleaseSpec

# Each with its types, and what does not work without it.
_NEEDED: Mapping[str, tuple[tuple[str, ...], str]] = {
    "aws_default": (("aws",), "models, records and locks lie in S3"),
    "kubernetes_default": (("kubernetes",), "pods run there, and a rollout changes the InferenceService"),
    "triton_staging": (("generic", "http", "triton"), "validation and benchmark ask the staging Triton"),
    "slipway_metrics": (("http",), "the judge of a canary reads its counts there"),
}
_OPTIONAL: Mapping[str, str] = {
    "slipway_ingress": "without it the hosts of the InferenceServices are asked as they are",
    "slipway_mirror": "without it the comparer of mirrored requests listens on ports 8080 and 8081",
}


@EXAMINATIONS.register
class ConnectionsExamination(Examination):
    """Looks each connection up, and shows its type and host, and nothing else of it."""

    name: ClassVar[str] = "connections"
    place: ClassVar[int] = 10
    why: ClassVar[str] = "a task that finds no connection fails, perhaps in the middle of a release"

    def lines(self, installation: Installation) -> Iterator[Line]:
        """Yield a line for each connection, for the bucket and the queue, and for each wrong variable."""
        for conn_id, (types, why) in _NEEDED.items():
            yield self._needed(conn_id, types, why)
        for conn_id, without in _OPTIONAL.items():
            yield self._optional(conn_id, without)
        if any(spec.registry is not None for spec in installation.specs.values()):
            yield self._needed("mlflow_default", ("http", "https", "generic", "mlflow"), "it is the registry")
        for conn_id in sorted(_of_notices(installation.specs.values())):
            yield self._needed(conn_id, (), "people are told by it what became of a release")
        yield self._variable("bucket", installation.bucket, "airflow variables set slipway_bucket BUCKET")
        yield self._variable(
            "intake queue", installation.queue_url, "export SLIPWAY_INTAKE_QUEUE_URL=https://sqs.…"
        )
        for problem in problems(os.environ):
            yield self.failed(
                f"variable {problem.variable}", problem.sentence, remedy=f"export {problem.variable}=…"
            )

    def _needed(self, conn_id: str, types: tuple[str, ...], why: str) -> Line:
        what = f"connection {conn_id}"
        found = _described(conn_id)
        if found is None:
            remedy = f"airflow connections add {conn_id} --conn-type {types[0] if types else 'generic'} …"
            return self.failed(
                what, "there is none", expected="docs/settings.md has its fields", remedy=remedy, why=why
            )
        conn_type, shown = found
        if shown.endswith(_UNREADABLE):
            return self.failed(
                what, shown, expected="a JSON object", remedy=_recreate(conn_id, conn_type), why=why
            )
        if types and conn_type not in types:
            # The hooks read its fields whatever its type; forms and secrets backends may not.
            expected = f"type {' or '.join(types)}"
            return self.warning(what, shown, expected=expected, remedy=_recreate(conn_id, types[0]), why=why)
        return self.ok(what, shown)

    def _optional(self, conn_id: str, without: str) -> Line:
        if _described(conn_id) is None:
            return self.skipped(f"connection {conn_id}", f"there is none: {without}")
        return self._needed(conn_id, ("http",), without)

    def _variable(self, what: str, value: str, remedy: str) -> Line:
        if value:
            return self.ok(what, value)
        return self.failed(what, "none is configured", remedy=remedy)


_UNREADABLE = "its extra cannot be read"


def _described(conn_id: str) -> tuple[str, str] | None:
    """Return a connection's type, and what may be shown of it: no login, no password, no extra."""
    try:
        connection = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        return None
    try:
        is_mapping = isinstance(json.loads(connection.extra or "{}"), dict)
    except ValueError:
        is_mapping = False
    host, conn_type = _host(connection.host or ""), str(connection.conn_type or "none")
    parts = [f"type {conn_type}", *([f"host {host}"] if host else [])]
    return conn_type, ", ".join([*parts, *([] if is_mapping else [_UNREADABLE])])


def _host(written: str) -> str:
    """Return the hosts that a connection names, without a name and a password that they may hold."""
    names = []
    for one in written.split(","):
        try:
            names.append(urlsplit(one if "://" in one else f"//{one.strip()}").hostname or "")
        except ValueError:
            names.append("that cannot be read")
    return ", ".join(filter(None, names))


def _recreate(conn_id: str, conn_type: str) -> str:
    return (
        f"airflow connections delete {conn_id} && airflow connections add {conn_id} --conn-type {conn_type} …"
    )


def _of_notices(specs: Iterable[ReleaseSpec]) -> set[str]:
    """Return the connections of the receivers that release files name."""
    return {rule.to for spec in specs for rule in spec.notify or ()}
