"""The keys of a pod's program, and what it runs under the same user: a scorer, a model's server, a builder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from slipway_pod.program.keys import without_keys
from slipway_pod.smoke_test.server import server_environment

# Becomes a program without any capability, as a pod's is: whoever has CAP_SYS_PTRACE reads every process.
WITHOUT_CAPABILITIES = """
import ctypes, os, sys
PR_CAPBSET_DROP = 24
for capability in range(64):
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
# The environment of a process lies in its memory as well, and its parent may hold it too.
SPY = """
import os
from pathlib import Path
found = {"own environment": str(dict(os.environ)).encode()}
parent = os.getppid()
for name in ("environ", "mem", "maps"):
    try:
        with open(f"/proc/{parent}/{name}", "rb") as file:
            if name == "mem":
                file.seek(0x1000)
            found[name] = file.read(1 << 16)
    except PermissionError:
        continue
    except OSError as error:  # such an address it does not have, but the file could be opened
        found[name] = b"hidden-key" if name == "mem" else b""
print("read", sorted(name for name, value in found.items() if b"hidden-key" in value))
"""
PROGRAM = """
import sys
import slipway_pod.program.result as result
from slipway_pod.program.subprograms import run_program

class Store:
    inputs = {}
    def delete(self, url): pass
    def write_json(self, value, url): pass

result.Store = Store
def work(store, found):
    print(*run_program([sys.executable, "-c", sys.argv[1]], 30).lines)
sys.exit(result.run_to_result("s3://bucket/key", work, tools=dict))
"""


def as_a_pod_runs(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program that has keys, without a capability."""
    package = Path(sys.modules["slipway_pod"].__path__[0]).parent
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_CAPABILITIES, "-c", program, *arguments],
        env={
            "PATH": os.defpath,
            "PYTHONPATH": str(package),
            "PYTHONDONTWRITEBYTECODE": "1",
            "AWS_ACCESS_KEY_ID": "name",
            "AWS_SECRET_ACCESS_KEY": "hidden-key",
        },
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_what_a_program_runs_cannot_read_its_keys() -> None:
    """Neither in its own environment, nor in the program's as /proc shows it, nor in the program's memory."""
    ended = as_a_pod_runs(PROGRAM, SPY)
    assert ended.returncode == 0, ended.stderr
    assert "read []" in ended.stdout


def test_it_could_read_those_of_a_program_that_does_not_hide() -> None:
    """What the test above shows is no want of rights: of a program like any other the spy reads the keys."""
    open_program = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]], env={})"
    ended = as_a_pod_runs(open_program, SPY)
    assert "'environ'" in ended.stdout, ended.stderr


def test_a_model_on_a_server_of_its_own_gets_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The smoke test's server runs the model's program: it has the rest of the environment."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden-key")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", "/somewhere")
    monkeypatch.setenv("LANG", "C.UTF-8")
    assert server_environment()["LANG"] == "C.UTF-8"
    assert not any(name.startswith("AWS_") for name in server_environment())


def test_other_variables_are_passed_on() -> None:
    """Only the names that clients of S3 read are left out."""
    assert without_keys({"AWS_PROFILE": "x", "PATH": "/bin", "MY_AWS_": "y"}) == {
        "PATH": "/bin",
        "MY_AWS_": "y",
    }
