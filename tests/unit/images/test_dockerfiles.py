"""include/images: what every Dockerfile keeps to, read as instructions; nothing is built."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from slipway.pods.manifest import USER_ID

from include.sandbox.host.settings import PROJECT_ROOT

DOCKERFILES = sorted((PROJECT_ROOT / "include" / "images").glob("*/Dockerfile"))
NAMED = [pytest.param(path, id=path.parent.name) for path in DOCKERFILES]
COMMIT_ARGUMENT = re.compile(r"[A-Z_]+_COMMIT")


def instructions(path: Path) -> list[tuple[str, str]]:
    """Each instruction with its arguments, lines joined and comments left out."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    pairs = (line.partition(" ") for line in joined.splitlines() if line.strip())
    return [(word, rest.strip()) for word, _, rest in pairs]


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
