"""The bucket: it answers, and its versioning, lifecycle and policy are as Slipway needs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from botocore.exceptions import ClientError

import slipway_core
from slipway.doctor.examination import EXAMINATIONS, Examination
from slipway.doctor.installation import Installation
from slipway.hooks.s3_errors import translated
from slipway.hooks.s3_store import ModelStoreHook
from slipway_core.doctor.bucket import lifecycle_findings, policy_findings, versioning_finding
from slipway_core.doctor.line import Line
from slipway_core.errors import SlipwayError

WANTED_POLICY = Path(slipway_core.__file__).parents[1] / "manifests" / "bucket" / "policy.json"
# What S3 answers where a setting was never made.
_ABSENT = frozenset({"NoSuchBucketPolicy", "NoSuchLifecycleConfiguration"})
# What servers answer that do not have a setting at all.
_NOT_THERE = frozenset({"NotImplemented", "MethodNotAllowed", "501", "405"})


@EXAMINATIONS.register
class BucketExamination(Examination):
    """Reads the bucket's settings; each takes a right of its own, and one that is lacking is told by its line."""

    name: ClassVar[str] = "bucket"
    place: ClassVar[int] = 30
    why: ClassVar[str] = "models, records and locks lie in it"

    def lines(self, installation: Installation) -> Iterator[Line]:
        """Yield a line for the bucket, and for each of its settings."""
        store = installation.store()
        store.entries("operations/", most=1)
        yield self.ok(f"bucket {store.bucket}", "it can be listed")
        versioning = self._ask(store, "versioning", lambda: store.client.get_bucket_versioning)
        if isinstance(versioning, Line):
            yield versioning
            is_versioned = False
        else:
            status = str((versioning or {}).get("Status", ""))
            is_versioned = status == "Enabled"
            yield self.of_finding(versioning_finding(status, store.bucket))
        lifecycle = self._ask(store, "lifecycle", lambda: store.client.get_bucket_lifecycle_configuration)
        if isinstance(lifecycle, Line):
            yield lifecycle
        else:
            rules = (lifecycle or {}).get("Rules", [])
            for finding in lifecycle_findings(rules, store.bucket, is_versioned=is_versioned):
                yield self.of_finding(finding)
        policy = self._ask(store, "policy", lambda: store.client.get_bucket_policy)
        if isinstance(policy, Line):
            yield policy
        else:
            found = None if policy is None else str(policy.get("Policy", ""))
            for finding in policy_findings(found, WANTED_POLICY.read_text(encoding="utf-8"), store.bucket):
                yield self.of_finding(finding)

    def _ask(
        self, store: ModelStoreHook, what: str, method: Callable[[], Callable[..., dict[str, Any]]]
    ) -> dict[str, Any] | Line | None:
        """Return a setting, None where it was never made, or the line that says why it is not known."""
        try:
            with translated(store.uri(""), store.aws_conn_id):
                try:
                    return method()(Bucket=store.bucket)
                except ClientError as error:
                    code = str(error.response.get("Error", {}).get("Code", ""))
                    if code in _ABSENT:
                        return None
                    if code in _NOT_THERE:
                        return self.skipped(what, "the server does not have it")
                    raise
        except SlipwayError as error:
            action = f"s3:GetBucket{what.title()}" if what != "lifecycle" else "s3:GetLifecycleConfiguration"
            return self.unknown(
                what, error.in_short(), remedy=f"give the role of {store.aws_conn_id} the action {action}"
            )
