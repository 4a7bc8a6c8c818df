"""A report of an examination, with a line of each status and a long command."""

from __future__ import annotations

from datetime import datetime, timedelta

from slipway_core.doctor.line import Line, Status
from slipway_core.doctor.report import DoctorReport

LINES = (
    Line(examination="connections", what="connection aws_default", status=Status.OK, found="type aws"),
    Line(
        examination="rights",
        what="leases.coordination.k8s.io in models",
        status=Status.FAILED,
        found="the account of kubernetes_default may not patch",
        expected="get, create, patch, delete",
        why="a canary without a lease is ended by the guard",
        remedy="kubectl -n models create role slipway-leases --verb=get,create,patch,delete "
        "--resource=leases.coordination.k8s.io && kubectl -n models create rolebinding slipway-leases "
        "--role=slipway-leases --serviceaccount=NAMESPACE:ACCOUNT",
    ),
    Line(
        examination="bucket",
        what="versioning",
        status=Status.WARNING,
        found="never turned on",
        expected="enabled",
        why="what somebody overwrites is gone",
        remedy="aws s3api put-bucket-versioning --bucket models --versioning-configuration Status=Enabled",
    ),
    Line(
        examination="images",
        what="image slipway/onnx:0.1.0",
        status=Status.UNKNOWN,
        found="its name has no registry, and <b>no pod</b> with it is there",
        why="a pod whose image cannot be pulled never starts",
        remedy="kubectl -n default run slipway-doctor-pull --rm -i --restart=Never --image=slipway/onnx:0.1.0",
    ),
    Line(
        examination="conditional_writes",
        what="conditional_writes",
        status=Status.SKIPPED,
        found="it is done only with --write",
        remedy="slipway doctor --only conditional_writes --write",
    ),
)


def examined(at: datetime) -> DoctorReport:
    """Return the report of an examination that ended then."""
    began = at - timedelta(seconds=14)
    return DoctorReport(began_at=began, ended_at=at, where="the DAG installation_examination", lines=LINES)
