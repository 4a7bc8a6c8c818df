"""What validation keeps while a scorer's pod runs: out of that pod's reach, and of one release."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.validation.scoring import Gathered, read_gathered
from slipway.release_run import ReleaseRun
from slipway_core.bucket_layout import gathered_key
from slipway_core.errors import UserError

GATHERED = Gathered(
    release_id="digits-3",
    version=3,
    given_sha256="a" * 64,
    scorer_sha256="b" * 64,
    rows=10,
    compared=False,
    health=(),
    latency_ms=(1.0,),
    stable_latency_ms=(),
)


class Store:
    """A store of objects by key."""

    def __init__(self, objects: dict[str, bytes]) -> None:
        self.objects = objects

    def require(self, key: str, **_: Any) -> bytes:
        return self.objects[key]

    def uri(self, key: str) -> str:
        return f"s3://slipway/{key}"


def read(objects: dict[str, bytes], release_id: str = "digits-3", version: int = 3) -> Gathered:
    run = SimpleNamespace(
        model="digits", release_id=release_id, version=version, evidence_prefix="models/digits/3/evidence/x/"
    )
    return read_gathered(cast(ModelStoreHook, Store(objects)), cast(ReleaseRun, run))


def test_a_pod_cannot_say_what_was_gathered() -> None:
    """What lies beside the pod's own results is not read: the output health and the digests are the task's."""
    forged = GATHERED.model_copy(update={"given_sha256": "f" * 64}).model_dump_json().encode()
    found = read(
        {
            gathered_key("digits"): GATHERED.model_dump_json().encode(),
            "models/digits/3/evidence/x/scoring/gathered.json": forged,
        }
    )
    assert found == GATHERED
    assert gathered_key("digits").startswith("records/digits/")


@pytest.mark.parametrize(("release_id", "version"), [("digits-4", 3), ("digits-3", 4)])
def test_what_another_release_gathered_is_refused(release_id: str, version: int) -> None:
    """It names its release and version, and the error says whose it is."""
    objects = {gathered_key("digits"): GATHERED.model_dump_json().encode()}
    with pytest.raises(UserError, match="another release"):
        read(objects, release_id, version)
