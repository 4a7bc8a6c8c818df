"""include/images: what every Dockerfile keeps to, read as instructions; nothing is built."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from slipway.pods.manifest import USER_ID
from slipway_sandbox.cluster.node.container_process import launch_plan
from slipway_sandbox.host.images import IMAGE_VARIABLES
from slipway_sandbox.host.settings import PROJECT_ROOT
from slipway_sandbox.services.triton import TritonPorts, TritonServer
from slipway_sandbox.services.triton_install import TritonInstall

CONTEXT = PROJECT_ROOT / "include"
DOCKERFILES = sorted((CONTEXT / "images").glob("*/Dockerfile"))
NAMED = [pytest.param(path, id=path.parent.name) for path in DOCKERFILES]
COMMIT_ARGUMENT = re.compile(r"[A-Z_]+_COMMIT")
LABELS = ("title", "description", "version", "revision", "source", "licenses")


def instructions(path: Path) -> list[tuple[str, str]]:
    """Each instruction with its arguments, lines joined and comments left out."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    pairs = (line.partition(" ") for line in joined.splitlines() if line.strip())
    return [(word, rest.strip()) for word, _, rest in pairs]


def arguments(path: Path) -> dict[str, str]:
    """The build arguments that have a default, with it."""
    given = (rest.partition("=") for word, rest in instructions(path) if word == "ARG")
    return {name: default for name, equals, default in given if equals}


def variables(path: Path) -> dict[str, str]:
    """What the image sets for every program."""
    pairs = [pair for word, rest in instructions(path) if word == "ENV" for pair in rest.split()]
    return dict(pair.split("=", 1) for pair in pairs)


@pytest.mark.parametrize("path", NAMED)
def test_the_base_image_is_a_build_argument_with_a_version(path: Path) -> None:
    """`--build-arg BASE_IMAGE=NAME@sha256:…` pins it; without it a tag that is not `latest` is taken."""
    found = instructions(path)
    assert [rest for word, rest in found if word == "FROM"] == ["${BASE_IMAGE}"]
    before = found[: [word for word, _ in found].index("FROM")]
    defaults = dict(rest.split("=", 1) for word, rest in before if word == "ARG")
    name, _, tag = defaults["BASE_IMAGE"].rpartition(":")
    assert name
    assert tag not in ("", "latest")


@pytest.mark.parametrize("path", NAMED)
def test_the_image_runs_as_the_user_that_pods_run_as(path: Path) -> None:
    """The last user is the one that the operators name, also where nobody names one."""
    users = [rest for word, rest in instructions(path) if word == "USER"]
    assert users == [f"{USER_ID}:{USER_ID}"]


@pytest.mark.parametrize("path", NAMED)
def test_packages_are_installed_by_their_hashes(path: Path) -> None:
    """Nothing comes from an index that is not pinned by the image's requirements.txt."""
    runs = [rest for word, rest in instructions(path) if word == "RUN" and "pip install" in rest]
    assert runs
    for run in runs:
        assert "--require-hashes" in run
        assert "--no-deps" in run


@pytest.mark.parametrize("path", NAMED)
def test_upstream_sources_come_by_commit(path: Path) -> None:
    """What is fetched by git is fetched by a commit that the builder must name, never by a branch or tag."""
    found = instructions(path)
    for word, rest in found:
        if word != "RUN" or "git " not in rest:
            continue
        assert "git clone" not in rest
        assert "--branch" not in rest
        (fetched,) = re.findall(r'git fetch .* origin "\$\{(\w+)\}"', rest)
        assert COMMIT_ARGUMENT.fullmatch(fetched)
        assert ("ARG", fetched) in found, "it has no default: the build stops without it"
        assert f"test ${{#{fetched}}} -eq 40" in rest


@pytest.mark.parametrize("path", NAMED)
def test_onnxruntime_sends_no_telemetry(path: Path) -> None:
    """Every image that installs onnxruntime turns its telemetry off, and no other image names it."""
    pinned = (path.parent / "requirements.txt").read_text(encoding="utf-8")
    has_it = re.search(r"^onnxruntime==", pinned, re.MULTILINE) is not None
    assert IMAGE_VARIABLES == {"ORT_DISABLE_TELEMETRY": "1"}
    assert (IMAGE_VARIABLES.items() <= variables(path).items()) is has_it


def test_the_sandbox_sets_what_the_images_set(tmp_path: Path) -> None:
    """An emulated pod and a Triton of the sandbox find the images' variables, though no image is there to set them."""
    metadata = {"name": "pod", "namespace": "models", "uid": "1"}
    container = {"name": "base", "command": ["true"]}
    plan = launch_plan(
        {"metadata": metadata, "spec": {"containers": [container]}},
        container,
        image=tmp_path,
        scripts=tmp_path,
        folder=tmp_path,
        given={},
    )
    server = TritonServer(TritonInstall(tmp_path, tmp_path, "", "2"), tmp_path, TritonPorts(1, 2, 3))
    assert IMAGE_VARIABLES.items() <= plan.environment.items()
    assert IMAGE_VARIABLES.items() <= server.env().items()


@pytest.mark.parametrize("path", NAMED)
def test_programs_and_standard_library_are_compiled(path: Path) -> None:
    """Nothing can be written in a pod, so bytecode that the build does not make is made anew at each start.

    NVIDIA's bases bring the standard library compiled.
    """
    runs = [rest for word, rest in instructions(path) if word == "RUN" and "compileall" in rest]
    assert runs[-1].split()[-1].startswith("/opt/slipway")
    assert any('get_path("stdlib")' in run for run in runs) is (
        "nvcr.io" not in path.read_text(encoding="utf-8")
    )
    flags = {"-OO" in run for run in runs}
    # Bytecode for another level of optimisation is never looked at.
    assert flags == {'"-OO"' in path.read_text(encoding="utf-8")}


@pytest.mark.parametrize("path", NAMED)
def test_labels_say_what_the_image_is(path: Path) -> None:
    """Title, description and licence are fixed; version, revision and source are arguments. They come last."""
    project = tomllib.loads((PROJECT_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    words = [word for word, _ in instructions(path)]
    assert words[-4:] == ["ARG", "ARG", "ARG", "LABEL"]
    found = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="([^"]*)"', instructions(path)[-1][1]))
    assert tuple(found) == LABELS
    assert found["title"] == f"slipway/{path.parent.name}"
    assert found["description"]
    assert found["licenses"] == project["license"]
    for label in ("version", "revision", "source"):
        assert found[label] == f"${{IMAGE_{label.upper()}}}"
    assert arguments(path)["IMAGE_VERSION"] == project["version"]
    assert arguments(path)["IMAGE_REVISION"] == arguments(path)["IMAGE_SOURCE"] == ""


def test_what_no_image_copies_is_not_sent_to_the_builder() -> None:
    """`include/.dockerignore` leaves out bytecode and the folders of no image, and nothing that an image copies."""
    lines = (CONTEXT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    ignored = {line for line in lines if line and not line.startswith("#")}
    copied = {
        source
        for path in DOCKERFILES
        for word, rest in instructions(path)
        if word == "COPY"
        for source in [word for word in rest.split() if not word.startswith("--")][:-1]
    }
    assert all((CONTEXT / source).exists() for source in copied)
    assert "**/__pycache__" in ignored
    folders = {path.name for path in CONTEXT.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert ignored & folders == folders - {source.split("/")[0] for source in copied}


def test_the_upstream_sources_are_fetched_as_written(tmp_path: Path) -> None:
    """The commands of the Dockerfile, run on a repository of this machine, leave the folders of that commit alone."""
    (run,) = [
        rest
        for word, rest in instructions(PROJECT_ROOT / "include/images/tensorrt-llm/Dockerfile")
        if word == "RUN" and "git fetch" in rest
    ]
    upstream, target = tmp_path / "upstream", tmp_path / "target"

    def git(*words: str) -> str:
        identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
        command = ["git", *identity, "-C", str(upstream), *words]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.strip()

    for name in ("examples/models/a.py", "triton_backend/all_models/inflight_batcher_llm/b", "docs/c"):
        (upstream / name).parent.mkdir(parents=True, exist_ok=True)
        (upstream / name).write_text("first")
    git("init", "--quiet")
    git("config", "uploadpack.allowAnySHA1InWant", "true")
    git("config", "uploadpack.allowFilter", "true")
    git("add", "-A")
    git("commit", "--quiet", "-m", "first")
    commit = git("rev-parse", "HEAD")
    (upstream / "examples/models/a.py").write_text("second")
    git("commit", "--quiet", "-am", "second")
    script = run.replace("/opt/tensorrt-llm", str(target)).replace(
        "https://github.com/NVIDIA/TensorRT-LLM.git", f"file://{upstream}"
    )

    def build(argument: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(tmp_path)}
        return subprocess.run(
            ["sh", "-c", script],
            env={**environment, "TENSORRT_LLM_COMMIT": argument},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    refused = build("v0.21.0")
    assert refused.returncode != 0
    assert "TENSORRT_LLM_COMMIT" in refused.stdout
    done = build(commit)
    assert done.returncode == 0, done.stderr
    assert (target / "examples/models/a.py").read_text() == "first"
    assert {path.name for path in target.iterdir()} == {"examples", "triton_backend"}
