"""include/manifests/verify: KServe can call the program, and it may do no more than it must."""

from __future__ import annotations

from typing import Any

import yaml

import verify_repository
from slipway_core.bucket_layout import repository_paths
from slipway_pod.verification.version_manifest import parse_source
from slipway_sandbox.host.settings import PROJECT_ROOT

FOLDER = PROJECT_ROOT / "include" / "manifests" / "verify"
SPEC: dict[str, Any] = yaml.safe_load((FOLDER / "cluster-storage-container.yaml").read_text())["spec"]
CONTAINER = SPEC["container"]
IMAGE = PROJECT_ROOT / "include" / "images" / "verify" / "Dockerfile"


def test_kserve_calls_it() -> None:
    """It is an init container under the one name that KServe knows, and leaves the two arguments to it."""
    assert SPEC["workloadType"] == "initContainer"
    assert CONTAINER["name"] == "storage-initializer"
    assert not CONTAINER.keys() & {"args", "command", "volumeMounts"}
    assert 'ENTRYPOINT ["verify_repository.py"]' in IMAGE.read_text()
    (program, option) = ("s3://b/models/digits/1/repository", "/mnt/models")
    parsed = verify_repository.arguments([program, option])
    assert (parsed.source, str(parsed.destination)) == (program, option)


def test_it_takes_published_versions_and_nothing_else() -> None:
    """Its prefix is that of every version's storageUri, and the program reads model and version from it."""
    uri = repository_paths("digits", 12).storage_uri("example-bucket")
    assert SPEC["supportedUriFormats"] == [{"prefix": "s3://example-bucket/models/"}]
    assert uri.startswith("s3://example-bucket/models/")
    version = parse_source(uri)
    assert (version.model, version.number) == ("digits", 12)
    assert f"{version.root}/manifest.json" == f"s3://example-bucket/{repository_paths('digits', 12).manifest}"


def test_it_may_do_no_more_than_it_must() -> None:
    """No root, no rights, a root file system that cannot be written, limits of memory."""
    context = CONTAINER["securityContext"]
    assert (context["runAsNonRoot"], context["readOnlyRootFilesystem"]) == (True, True)
    assert (context["allowPrivilegeEscalation"], context["capabilities"]) == (False, {"drop": ["ALL"]})
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert f"USER {context['runAsUser']}:{context['runAsGroup']}" in IMAGE.read_text()
    assert CONTAINER["resources"]["limits"]["memory"] == "512Mi"


def test_its_variables_are_the_programs() -> None:
    """Each variable is one that the program reads, and a ConfigMap that is missing keeps the pod from starting."""
    told = verify_repository.__doc__ or ""
    assert all(one["name"] in told for one in CONTAINER["env"])
    (keys,) = (one for one in CONTAINER["env"] if one["name"] == verify_repository.KEYS_VARIABLE)
    assert not keys["valueFrom"]["configMapKeyRef"].get("optional", False)
