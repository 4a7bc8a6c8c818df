"""What a bucket's settings must be: versions, a lifecycle, and a policy that says who may write what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from slipway_core.doctor.finding import Finding, fine
from slipway_core.doctor.line import Status
from slipway_core.doctor.policy_documents import differing_statements

REWRITTEN = ("live/", "views/")
"""What is written over often: with versioning, each former content stays until a rule removes it."""
_FILES = "include/manifests/bucket"


def versioning_finding(status: str, bucket: str) -> Finding:
    """Return what a bucket's versioning says.

    :param status: `Enabled`, `Suspended`, or "" where it never was on.
    """
    if status == "Enabled":
        return fine("versioning", "enabled")
    return Finding(
        "versioning",
        Status.WARNING,
        status.lower() or "never turned on",
        "enabled",
        "without it what somebody overwrites or deletes is gone, and publishing copies the originals once more",
        f"aws s3api put-bucket-versioning --bucket {bucket} --versioning-configuration Status=Enabled",
    )


def lifecycle_findings(
    rules: Sequence[Mapping[str, Any]], bucket: str, *, is_versioned: bool
) -> Iterator[Finding]:
    """Yield what is lacking of a bucket's lifecycle.

    :param rules: its rules, as S3 returns them; none where there is no configuration.
    :param is_versioned: whether former contents stay.
    """
    put = (
        f"aws s3api put-bucket-lifecycle-configuration --bucket {bucket} --lifecycle-configuration "
        f"file://{_FILES}/lifecycle.json"
    )
    enabled = [one for one in rules if one.get("Status") == "Enabled"]
    if any("AbortIncompleteMultipartUpload" in one and _prefix(one) in ("", "incoming/") for one in enabled):
        yield fine("lifecycle: multipart uploads", "those that nobody ends are aborted")
    else:
        yield Finding(
            "lifecycle: multipart uploads",
            Status.WARNING,
            "no rule aborts those that nobody ends",
            "AbortIncompleteMultipartUpload, for all keys",
            "the parts of an upload that died are paid for, and no listing shows them",
            put,
        )
    if not is_versioned:
        return
    for prefix in REWRITTEN:
        what = f"lifecycle: {prefix}"
        if any(
            "NoncurrentVersionExpiration" in one and prefix.startswith(_prefix(one) or prefix)
            for one in enabled
        ):
            yield fine(what, "former contents are removed")
        else:
            yield Finding(
                what,
                Status.WARNING,
                "no rule removes former contents",
                "NoncurrentVersionExpiration",
                "a canary writes its document for the pages over once a window, and each former one stays",
                put,
            )


def policy_findings(policy: str | None, wanted: str, bucket: str) -> Iterator[Finding]:
    """Yield what is lacking of a bucket's policy.

    :param policy: the bucket's; None: it has none.
    :param wanted: the one of this project, with BUCKET and ACCOUNT for names.
    """
    why = "it keeps all but Slipway's own roles from what decides a release: records, manifests, locks"
    put = f"aws s3api put-bucket-policy --bucket {bucket} --policy file://{_FILES}/policy.json"
    if policy is None:
        yield Finding("policy", Status.WARNING, "the bucket has none", f"{_FILES}/policy.json", why, put)
        return
    try:
        missing, other = differing_statements(policy, wanted, bucket)
    except ValueError as error:
        yield Finding("policy", Status.FAILED, str(error), f"{_FILES}/policy.json", why, put)
        return
    if not missing and not other:
        yield fine("policy", f"every statement of {_FILES}/policy.json is there")
    if missing:
        yield Finding(
            "policy", Status.WARNING, f"it lacks {', '.join(missing)}", f"{_FILES}/policy.json", why, put
        )
    if other:
        found = f"other actions or resources in {', '.join(other)}"
        yield Finding("policy", Status.WARNING, found, f"{_FILES}/policy.json", why, put)


def _prefix(rule: Mapping[str, Any]) -> str:
    """Return the prefix that a rule is about; "" for all keys."""
    chosen = rule.get("Filter") or {}
    both = chosen.get("And") if isinstance(chosen, Mapping) else None
    found = chosen.get("Prefix") or (both or {}).get("Prefix") or rule.get("Prefix")
    return str(found or "")
