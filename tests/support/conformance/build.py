"""Build the programs of the real control plane from Go modules, once, into a cache outside of the checkout.

    python -m tests.support.conformance.build [MODULE …]

Each folder of `tests/conformance/modules/` is a Go module that names programs of others. Its go.mod and go.sum are
complete, so nothing is resolved here: `-mod=readonly` refuses whatever they do not name. The manifests that lie in the
same modules (custom resources, ConfigMaps, webhooks) are copied beside the programs, so a full cache needs no Go.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

MODULES = Path(__file__).resolve().parents[2] / "conformance" / "modules"
# Part of each digest: other flags are other programs. -trimpath is part of Go's own cache key too.
FLAGS = ("-mod=readonly", "-buildvcs=false", "-trimpath")
LINKER_FLAGS = ("-s", "-w")
PROMETHEUS_OPERATOR = "github.com/prometheus-operator/prometheus-operator"
_VERSION_PACKAGE = "k8s.io/component-base/version"
_COMPLETE, _C_COMPILER = "complete.json", "gcc"
# How many packages are compiled at once: as many as there are processors, unless others need them.
JOBS_VARIABLE = "SLIPWAY_BUILD_JOBS"


class BuildError(Exception):
    """The programs cannot be built; the message says what to do."""


@dataclass(frozen=True)
class Manifests:
    """Files of a module that the cluster is set up with: the module, and globs within it."""

    module: str
    patterns: tuple[str, ...]


@dataclass(frozen=True)
class WrapperModule:
    """One folder of `MODULES`.

    :param programs: the package of each program, by the name that the program gets.
    :param main: the module whose version the programs have.
    :param manifests: what else is taken from the modules that it names.
    :param needs_c: part of a program is written in C.
    """

    name: str
    main: str
    programs: dict[str, str]
    manifests: tuple[Manifests, ...] = ()
    needs_c: bool = False

    @property
    def folder(self) -> Path:
        """Where its go.mod lies."""
        return MODULES / self.name

    @property
    def digest(self) -> str:
        """What the programs depend on, as a short name."""
        digest = hashlib.sha256()
        for path in sorted(self.folder.iterdir()):
            digest.update(path.read_bytes())
        digest.update(repr((FLAGS, LINKER_FLAGS, self.main, self.programs, self.manifests)).encode())
        return digest.hexdigest()[:16]

    @property
    def cache(self) -> Path:
        """Where its programs and manifests are kept."""
        return cache_folder() / f"{self.name}-{self.digest}"

    @property
    def go_needed(self) -> tuple[int, ...]:
        """The oldest Go that its go.mod admits."""
        found = re.search(
            r"^go ([\d.]+)$", (self.folder / "go.mod").read_text(encoding="utf-8"), re.MULTILINE
        )
        assert found is not None
        return _numbers(found[1])


ETCD = WrapperModule("etcd", "go.etcd.io/etcd/server/v3", {"etcd": "go.etcd.io/etcd/server/v3"})
KUBE = WrapperModule(
    "kube",
    "k8s.io/kubernetes",
    {
        name: f"k8s.io/kubernetes/cmd/{name}"
        for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
    },
)
# What runs pods as containers: another lane's (tests/containers/test_node.py).
NODE = WrapperModule("node", "k8s.io/kubernetes", {"kubelet": "k8s.io/kubernetes/cmd/kubelet"})
KSERVE = WrapperModule(
    "kserve",
    "github.com/kserve/kserve",
    {"kserve-manager": "github.com/kserve/kserve/cmd/manager"},
    (
        Manifests(
            "github.com/kserve/kserve",
            (
                "config/crd/full/serving.kserve.io_*.yaml",
                "config/crd/full/clusterstoragecontainer/serving.kserve.io_*.yaml",
                "config/configmap/inferenceservice.yaml",
                "config/storagecontainers/default.yaml",
                "config/runtimes/kserve-tritonserver.yaml",
                "config/webhook/manifests.yaml",
            ),
        ),
        Manifests("sigs.k8s.io/gateway-api", ("config/crd/standard/*.yaml",)),
        Manifests("istio.io/api", ("kubernetes/customresourcedefinitions.gen.yaml",)),
    ),
)
KNATIVE = WrapperModule(
    "knative",
    "knative.dev/serving",
    {f"knative-{name}": f"knative.dev/serving/cmd/{name}" for name in ("controller", "autoscaler")},
    (
        Manifests(
            "knative.dev/serving", ("config/core/300-resources/*.yaml", "config/core/configmaps/*.yaml")
        ),
        Manifests("knative.dev/networking", ("config/*.yaml",)),
        Manifests("knative.dev/caching", ("config/image.yaml",)),
    ),
)
MONITORING = WrapperModule(
    "monitoring",
    PROMETHEUS_OPERATOR,
    {},
    (
        Manifests(
            PROMETHEUS_OPERATOR,
            tuple(
                f"example/prometheus-operator-crd/monitoring.coreos.com_{kind}.yaml"
                for kind in ("podmonitors", "prometheusrules", "scrapeconfigs")
            ),
        ),
    ),
)
# What installs the chart, and renders include/manifests from it.
HELM = WrapperModule("helm", "helm.sh/helm/v4", {"helm": "helm.sh/helm/v4/cmd/helm"})
# A real S3 server: another lane's (tests/stores).
VERSITYGW = WrapperModule(
    "versitygw", "github.com/versity/versitygw", {"versitygw": "github.com/versity/versitygw/cmd/versitygw"}
)
# A real registry of images: another lane's (tests/containers/test_image_push.py).
REGISTRY = WrapperModule(
    "registry",
    "github.com/distribution/distribution/v3",
    {"registry": "github.com/distribution/distribution/v3/cmd/registry"},
)
# The way of a request in a cluster with a node: the lane of tests/cluster.
KNATIVE_DATA = WrapperModule(
    "knative-data",
    "knative.dev/serving",
    {f"knative-{name}": f"knative.dev/serving/cmd/{name}" for name in ("activator", "queue")},
    (
        Manifests(
            "knative.dev/serving",
            (
                "config/core/200-roles/*.yaml",
                "config/core/200-serviceaccount.yaml",
                "config/core/deployments/*.yaml",
            ),
        ),
    ),
)
KOURIER = WrapperModule(
    "kourier",
    "knative.dev/net-kourier",
    {"kourier": "knative.dev/net-kourier/cmd/kourier"},
    (Manifests("knative.dev/net-kourier", ("config/*.yaml",)),),
)
# What runs containers, where the machine has no packages of it.
_CONTAINERD = "github.com/containerd/containerd/v2"
CONTAINERD = WrapperModule(
    "containerd",
    _CONTAINERD,
    {name: f"{_CONTAINERD}/cmd/{name}" for name in ("containerd", "containerd-shim-runc-v2", "ctr")},
)
RUNC = WrapperModule(
    "runc", "github.com/opencontainers/runc", {"runc": "github.com/opencontainers/runc"}, needs_c=True
)
_CNI = "github.com/containernetworking/plugins"
CNI = WrapperModule(
    "cni",
    _CNI,
    {
        name: f"{_CNI}/plugins/{kind}/{name}"
        for name, kind in (("bridge", "main"), ("loopback", "main"), ("host-local", "ipam"))
    },
)
PAUSE = WrapperModule("pause", "slipway.dev/conformance/pause", {"pause": "slipway.dev/conformance/pause"})
RUNTIME_MODULES = (CONTAINERD, RUNC, CNI, PAUSE)
WRAPPER_MODULES = (ETCD, KUBE, KSERVE, KNATIVE, MONITORING, HELM)
EVERY_MODULE = (*WRAPPER_MODULES, NODE, VERSITYGW, REGISTRY, KNATIVE_DATA, KOURIER, *RUNTIME_MODULES)


@dataclass(frozen=True)
class Built:
    """What a wrapper module gave: its programs, manifests by module, and the version of each module."""

    programs: dict[str, Path]
    manifests: dict[str, Path]
    versions: dict[str, str]


def cache_folder() -> Path:
    """Return the folder of everything that was ever built."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "slipway" / "conformance"


def built(wrapper: WrapperModule) -> Built | None:
    """Return what is in the cache; None where it is not whole."""
    try:
        versions = json.loads((wrapper.cache / _COMPLETE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    programs = {name: wrapper.cache / name for name in wrapper.programs}
    manifests = {one.module: wrapper.cache / "manifests" / one.module for one in wrapper.manifests}
    if not all(path.exists() for path in (*programs.values(), *manifests.values())):
        return None
    return Built(programs, manifests, versions)


def build(wrapper: WrapperModule, say: Callable[[str], None] = print) -> Built:
    """Return what is in the cache, and build first what is not.

    :raises BuildError: Go is missing or too old, or a build failed.
    """
    if (found := built(wrapper)) is not None:
        return found
    require_go(wrapper)
    wrapper.cache.mkdir(parents=True, exist_ok=True)
    names = (wrapper.main, *(one.module for one in wrapper.manifests if one.module != wrapper.main))
    versions = {name: _go(wrapper, "list", "-m", "-f", "{{.Version}}", name) for name in names}
    for name, package in wrapper.programs.items():
        target = wrapper.cache / name
        if not target.exists():
            with _timed(f"{name} {versions[wrapper.main]}", say):
                _build_program(wrapper, package, target, versions[wrapper.main])
    for one in wrapper.manifests:
        _copy_manifests(wrapper, one)
    _write(wrapper.cache / _COMPLETE, json.dumps(versions))
    complete = built(wrapper)
    assert complete is not None
    return complete


def require_go(wrapper: WrapperModule) -> None:
    """Refuse to begin without a Go that can build the module.

    :raises BuildError: there is none, or it is too old.
    """
    needed = ".".join(map(str, wrapper.go_needed))
    if shutil.which("go") is None:
        raise BuildError(
            f"There is no `go` on PATH. Install Go {needed} or later: https://go.dev/doc/install"
        )
    version = _go(wrapper, "env", "GOVERSION").removeprefix("go")
    if _numbers(version) < wrapper.go_needed:
        raise BuildError(f"Go {version} is too old for {wrapper.name}: install Go {needed} or later.")
    if wrapper.needs_c and shutil.which(_C_COMPILER) is None:
        raise BuildError(f"{wrapper.name} is partly written in C: install {_C_COMPILER}.")


def _build_program(wrapper: WrapperModule, package: str, target: Path, version: str) -> None:
    linker_flags = list(LINKER_FLAGS)
    if wrapper.main == KUBE.main:
        # The API server ends at once where these are empty, and clients compare them.
        minor = version.split(".")[1]
        for name, value in (
            ("gitVersion", version),
            ("gitMajor", "1"),
            ("gitMinor", minor),
            ("gitTreeState", "clean"),
            ("gitCommit", "module"),
            ("buildDate", "1970-01-01T00:00:00Z"),
        ):
            linker_flags += ["-X", f"{_VERSION_PACKAGE}.{name}={value}"]
    unfinished = target.with_name(f"{target.name}.{os.getpid()}")
    try:
        limit = ("-p", jobs) if (jobs := os.environ.get(JOBS_VARIABLE)) else ()
        flags = (*FLAGS, *limit, "-ldflags", " ".join(linker_flags))
        _go(wrapper, "build", *flags, "-o", str(unfinished), package)
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)


def _copy_manifests(wrapper: WrapperModule, manifests: Manifests) -> None:
    source = Path(json.loads(_go(wrapper, "mod", "download", "-json", manifests.module))["Dir"])
    target = wrapper.cache / "manifests" / manifests.module
    for path in (path for pattern in manifests.patterns for path in source.glob(pattern)):
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        # The module's own files cannot be written, and a copy that cannot is in the way of the next.
        _write(copy, path.read_text(encoding="utf-8"))


def _write(path: Path, text: str) -> None:
    unfinished = path.with_name(f"{path.name}.{os.getpid()}")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)


def _go(wrapper: WrapperModule, *arguments: str) -> str:
    """Return what a call of Go in the wrapper's folder prints."""
    # No toolchain is downloaded, and what people have in GOFLAGS does not change what is built.
    environment = {
        **os.environ,
        "CGO_ENABLED": str(int(wrapper.needs_c)),
        "GOTOOLCHAIN": "local",
        "GOFLAGS": "",
        "GOWORK": "off",
    }
    called = subprocess.run(
        ["go", *arguments], cwd=wrapper.folder, env=environment, capture_output=True, text=True, check=False
    )
    if called.returncode:
        raise BuildError(f"go {' '.join(arguments)} failed in {wrapper.folder}:\n{called.stderr[-4000:]}")
    return called.stdout.strip()


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


@contextmanager
def _timed(what: str, say: Callable[[str], None]) -> Iterator[None]:
    say(f"  building {what} …")
    began_s = time.monotonic()
    yield
    say(f"  built {what} in {time.monotonic() - began_s:.0f} s")


def main(names: Sequence[str] = ()) -> int:
    """Build what is missing of the modules with these names, or of the conformance lane's; return an exit code."""
    began_s = time.monotonic()
    known = {wrapper.name: wrapper for wrapper in EVERY_MODULE}
    wrappers = [known[name] for name in names] or WRAPPER_MODULES
    try:
        missing = [wrapper.name for wrapper in wrappers if built(wrapper) is None]
        if missing:
            print(
                f"Building {', '.join(missing)} (minutes at the first time) into {cache_folder()}", flush=True
            )
        for wrapper in wrappers:
            build(wrapper, lambda line: print(line, flush=True))
    except BuildError as error:
        print(f"The real control plane cannot be built. {error}", file=sys.stderr)
        return 1
    print(f"The programs are in {cache_folder()} ({time.monotonic() - began_s:.1f} s).", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
