"""Helm, as the conformance lane builds it or as it is on PATH."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.support.chart.files import CHART
from tests.support.conformance.build import HELM, built

RELEASE = "slipway"
_LIMIT_S = 300.0
_SOURCE = re.compile(r"^# Source: slipway/templates/(\S+)\n", re.MULTILINE)


@dataclass(frozen=True)
class Called:
    """What a call of Helm came to."""

    code: int
    output: str
    error: str


class Helm:
    """One Helm, which keeps nothing of its own beyond a call.

    :param kubeconfig: the cluster that it works on; None: no cluster.
    """

    def __init__(self, kubeconfig: Path | None = None) -> None:
        self._program = helm_program()
        self._kubeconfig = kubeconfig

    def call(self, *arguments: str | Path) -> Called:
        """Run it once, with settings of its own."""
        with tempfile.TemporaryDirectory(prefix="slipway-helm-") as folder:
            home = {
                f"HELM_{name}_HOME": str(Path(folder) / name.lower()) for name in ("CACHE", "CONFIG", "DATA")
            }
            nowhere = Path(folder) / "no-cluster"
            environment = {
                "PATH": os.environ["PATH"],
                "HOME": folder,
                "KUBECONFIG": str(self._kubeconfig or nowhere),
                **home,
            }
            done = subprocess.run(
                [self._program, *map(str, arguments)],
                env=environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=_LIMIT_S,
            )
        return Called(done.returncode, done.stdout, done.stderr)

    def must(self, *arguments: str | Path) -> str:
        """Run it once and return what it prints.

        :raises AssertionError: it failed.
        """
        called = self.call(*arguments)
        assert called.code == 0, f"helm {' '.join(map(str, arguments))}:\n{called.error[-4000:]}"
        return called.output

    def template(self, *arguments: str | Path, namespace: str = "models", chart: Path = CHART) -> str:
        """Return what the chart renders, as text.

        :param arguments: values, such as `--set`, KEY=VALUE.
        """
        return self.must("template", RELEASE, chart, "--namespace", namespace, *arguments)


def helm_program() -> str:
    """Return the Helm that the conformance lane has built, or that is on PATH.

    :raises FileNotFoundError: neither is there.
    """
    if (found := built(HELM)) is not None:
        return str(found.programs["helm"])
    program = shutil.which("helm")
    if program is None:
        raise FileNotFoundError(
            "There is no Helm. Build it: .venv/bin/python -m tests.support.conformance.build helm"
        )
    return program


def by_template(rendered: str) -> dict[str, list[str]]:
    """Return the documents of a rendering by the template that they come from, without Helm's own lines."""
    found: dict[str, list[str]] = {}
    for document in re.split(r"^---\n", rendered, flags=re.MULTILINE):
        source = _SOURCE.match(document)
        if source is None:
            continue
        lines = (line.rstrip() for line in document[source.end() :].splitlines())
        found.setdefault(source[1], []).append("\n".join(lines).strip("\n") + "\n")
    return found


def objects(rendered: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of a rendering."""
    for one in yaml.safe_load_all(rendered):
        if one:
            yield one


def settings(values: Mapping[str, str]) -> Sequence[str]:
    """Return values as Helm's arguments."""
    return [part for name, value in values.items() for part in ("--set", f"{name}={value}")]
