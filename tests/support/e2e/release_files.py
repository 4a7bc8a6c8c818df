"""The release files of these tests: the project's own for digits, and what each story changes in it."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from slipway_sandbox.host.settings import PROJECT_ROOT

DIGITS = "digits"
MAGIKA = "magika"
ONE_AT_A_TIME = "digits-one-at-a-time"
ON_CALL = "digits-on-call"
ON_GPU = "digits-on-gpu"
SURVIVING = "digits-surviving"
ORPHANED = "digits-orphaned"
FOUR_EYES = "digits-four-eyes"
FROZEN = "digits-frozen"
DRIFTING = "digits-drifting"
BY_GRPC = "digits-by-grpc"
FLEET = "e2e"

LONG_CANARY: dict[str, Any] = {"steps": [{"weight": 50, "bake_s": 240}], "window_s": 2, "max_bake_s": 280}
SHORT_CANARY: dict[str, Any] = {
    "steps": [{"weight": 50, "bake_s": 10}, {"weight": 80, "bake_s": 10}],
    "window_s": 2,
    "max_bake_s": 60,
}
# Long enough for a triggerer to die and another to take over, and then for a scheduler to die. Nobody renews the lease
# from the end of the step until a scheduler is there, which on a busy machine takes its time.
CANARY_OF_A_SURVIVOR: dict[str, Any] = {
    "steps": [{"weight": 50, "bake_s": 20}],
    "window_s": 2,
    "max_bake_s": 60,
    "lease_s": 600,
}
# As long as it must be for the sandbox's triggerers.
ORPHANED_LEASE_S = 40
# The judge does not look before Airflow is dead; the guard does not wait long.
CANARY_OF_AN_ORPHAN: dict[str, Any] = {
    "steps": [{"weight": 50, "bake_s": 120}],
    "window_s": 60,
    "max_bake_s": 120,
    "lease_s": ORPHANED_LEASE_S,
}
# Each request waits for others that never come: without dynamic batching it is answered in a fraction of the time.
SLOW_BATCHING: dict[str, Any] = {"dynamic_batching": {"max_queue_delay_us": 100_000}}
# Little, so that the staging server is soon free for the others.
TUNING: dict[str, Any] = {
    "objective": "latency",
    "quantile": "p50",
    "request_rate_rps": 50,
    "requests": 50,
    "trials": 1,
    "rounds": 1,
    "confirm_rounds": 4,
    "search": {"max_queue_delays_us": [0], "preferred_batch_sizes": [[]], "instances": [1]},
}
ENDS_AND_BEGINNINGS = ["started", "promoted", "rolled_back", "refused"]
TOLD, HANGING = "e2e_told", "e2e_hanging"
NO_SUCH_GPU = 99
TWO_PRECISIONS: dict[str, Any] = {
    "variants": {"whole": {}, "rough": {"precision": "int8", "parity": {"abs_tolerance": 1e-9}}}
}
# Both precisions are held to their classes; any of the two may be the faster one.
FROM_PYTORCH: dict[str, Any] = {
    "target": "pytorch",
    "outputs": ["label", "probabilities"],
    "resources": {"cpu": 1, "memory": "6Gi"},
    "parity": {"measure": "top_k", "agreement_min": 0.97, "outputs": {"label": {"within_min": 0.97}}},
    "variants": {"whole": {"parity": {"measure": "tolerance"}}, "quick": {"precision": "int8"}},
    "choose": "fastest",
}
BATCHED_AND_WARM: dict[str, Any] = {
    "dynamic_batching": {"max_queue_delay_us": 1000, "preferred_batch_sizes": [4, 8]},
    "warmup": [{"name": "golden", "row": 3, "batch_size": 4}],
}
MIRRORED_REQUESTS = 60
MIRROR: dict[str, Any] = {
    "requests": MIRRORED_REQUESTS,
    "timeout_s": 120,
    "required": True,
    "output": "label",  # the clients ask for nothing else
    "agreement_min": 0.7,
}


def write_release_files(folder: Path) -> None:
    """Fill `folder` with one release file for each model of the stories."""
    folder.mkdir(parents=True, exist_ok=True)
    digits = _digits()
    refuse = {"on_concurrent_release": "refuse"}
    gpu = {"instances": [{"kind": "gpu", "count": 1, "gpus": [NO_SUCH_GPU]}]}
    # Each smoke test starts a server, and only some stories are about it. A model for a GPU that no server has is to be
    # refused by the staging server, which would be asked second: the node has no GPU for a pod either.
    brief = {**digits, "smoke_test": None}
    variants = [
        digits,
        {
            **_variant(brief, ONE_AT_A_TIME, rollout={**LONG_CANARY, **refuse}),
            "notify": [{"on": [*ENDS_AND_BEGINNINGS], "to": to} for to in (HANGING, TOLD)],
        },
        _variant(digits, ON_CALL, conversion=TWO_PRECISIONS, rollout={**SHORT_CANARY, "preview": {}}),
        _variant(brief, ON_GPU, serving=gpu),
        _variant(brief, SURVIVING, rollout=CANARY_OF_A_SURVIVOR),
        _variant(brief, ORPHANED, rollout=CANARY_OF_AN_ORPHAN),
        _variant(brief, FOUR_EYES, rollout={"approval": {"before_canary": True, "by_other": True}}),
        _variant(brief, FROZEN, rollout=SHORT_CANARY),
        _variant(digits, BY_GRPC, rollout={**SHORT_CANARY, "protocol": "grpc"}),
        {**_variant(brief, DRIFTING, serving=SLOW_BATCHING, benchmark={"requests": 20}), "tuning": TUNING},
    ]
    for variant in variants:
        _write(folder, variant)
    shutil.copyfile(Path(__file__).parent / "releases" / "magika.yaml", folder / "magika.yaml")


def write_fleet_file(folder: Path, model: str, connections: Sequence[str], unreachable_s: float) -> None:
    """Fill `folder` with the file of the stories' one fleet."""
    folder.mkdir(parents=True, exist_ok=True)
    policy = {"unreachable_s": unreachable_s, "quiet_s": 0.2}
    file = {"fleet": FLEET, "model": model, "connections": [*connections], "policy": policy}
    (folder / f"{FLEET}.yaml").write_text(yaml.safe_dump(file, sort_keys=False))


def ask_for_everything(folder: Path, key: Path) -> None:
    """Change the release file of ON_CALL: PyTorch, variants, a signature with `key`, mirrored requests."""
    signing = {"signing": {"private_key_file": str(key)}}
    changed = _variant(
        _digits(),
        ON_CALL,
        source={"format": "pytorch", "model_file": "model.pt"},
        serving=BATCHED_AND_WARM,
        rollout={**SHORT_CANARY, "preview": {}, "mirror_comparison": MIRROR},
    )
    _write(folder, {**changed, "conversion": FROM_PYTORCH, "publish": signing})


def write_signing_key(path: Path) -> None:
    """Make a private key, as `openssl ecparam -name prime256v1 -genkey -noout` does."""
    path.write_bytes(
        ec.generate_private_key(ec.SECP256R1()).private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )


def _digits() -> dict[str, Any]:
    """The project's own release file of digits."""
    digits: dict[str, Any] = yaml.safe_load(
        (PROJECT_ROOT / "include" / "releases" / "digits.yaml").read_text()
    )
    # Several releases share the machine here, which says nothing about the models' speed.
    digits["benchmark"] |= {"slo": {"p99_ms": 10_000}, "max_regression_percent": 1000, "requests": 100}
    return digits


def _write(folder: Path, release: dict[str, Any]) -> None:
    (folder / f"{release['model']}.yaml").write_text(yaml.safe_dump(release, sort_keys=False))


def _variant(digits: dict[str, Any], model: str, **parts: dict[str, Any]) -> dict[str, Any]:
    """`digits` under another name, with some keys of some parts replaced."""
    changed = {part: {**digits[part], **keys} for part, keys in parts.items()}
    return {**digits, **changed, "model": model}
