"""Render include/manifests from the chart, for those who work with Kustomize or kubectl alone.

    python -m tests.support.chart.manifests [--check]

The chart is the source. Each template with objects gets one file of the same path, and each folder a
kustomization.yaml. The first one has the digests of the chart and of the rendered files, so that a rendering that is
out of date, or was changed by hand, is noticed where there is no Helm.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.chart.files import CHART, ROOT, chart_digest
from tests.support.chart.helm import Helm, by_template

MANIFESTS = ROOT / "include" / "manifests"
KUSTOMIZATION = "kustomization.yaml"
_VALUES = CHART / "ci" / "manifests-values.yaml"
_HEAD = "# Rendered by `make manifests` from include/charts/slipway: change the chart.\n"
# What every installation has. The other folders are applied by those who want them.
BASE = ("airflow", "guard", "network", "serving", "staging", "teams")
# The guard runs in one of two ways. The base has the Deployment.
_CRON_JOB = "guard/cronjob.yaml"
_DIGESTS = re.compile(
    r"^# SHA-256 of the chart: ([0-9a-f]{64})\n# SHA-256 of the rendered files: ([0-9a-f]{64})$", re.MULTILINE
)


def rendered_files(helm: Helm) -> dict[str, str]:
    """Return the text of every file that is rendered, by its path below include/manifests."""
    found = by_template(helm.template("--values", _VALUES))
    found |= by_template(
        helm.template(
            "--values", _VALUES, "--set", "guard.kind=CronJob", "--show-only", f"templates/{_CRON_JOB}"
        )
    )
    files = {path: _HEAD + "---\n".join(documents) for path, documents in found.items() if "/" in path}
    return files | _kustomizations(files)


def _kustomizations(files: Mapping[str, str]) -> dict[str, str]:
    by_folder: dict[str, list[str]] = {}
    for path in sorted(files):
        folder, _, name = path.partition("/")
        if path != _CRON_JOB:
            by_folder.setdefault(folder, []).append(name)
    made = {f"{folder}/{KUSTOMIZATION}": _kustomization(names) for folder, names in by_folder.items()}
    digests = (
        f"# SHA-256 of the chart: {chart_digest()}\n"
        f"# SHA-256 of the rendered files: {files_digest({**files, **made})}\n"
    )
    return made | {KUSTOMIZATION: _kustomization(BASE, digests)}


def _kustomization(resources: Sequence[str], more: str = "") -> str:
    lines = "".join(f"  - {name}\n" for name in resources)
    return (
        f"{_HEAD}{more}apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n{lines}"
    )


def files_digest(files: Mapping[str, str]) -> str:
    """Return the digest of rendered files, by path; the first kustomization.yaml, which has it, is left out."""
    named = sorted((path, text) for path, text in files.items() if path != KUSTOMIZATION)
    return hashlib.sha256(json.dumps(named).encode()).hexdigest()


def recorded_digests() -> tuple[str, str]:
    """Return the digests of the chart and of the rendered files that include/manifests names; "": it names none."""
    found = _DIGESTS.search((MANIFESTS / KUSTOMIZATION).read_text(encoding="utf-8"))
    return (found[1], found[2]) if found else ("", "")


def files_there() -> dict[str, str]:
    """Return the text of every rendered file in include/manifests, by its path."""
    return {
        path.relative_to(MANIFESTS).as_posix(): text
        for path in MANIFESTS.rglob("*.yaml")
        if (text := path.read_text(encoding="utf-8")).startswith(_HEAD)
    }


def outdated(files: Mapping[str, str]) -> list[str]:
    """Return the paths of files that are missing, differ, or are rendered no longer."""
    there = files_there()
    return sorted(path for path in files.keys() | there.keys() if files.get(path) != there.get(path))


def _write(files: Mapping[str, str], paths: Sequence[str]) -> None:
    for path in paths:
        target: Path = MANIFESTS / path
        if path in files:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(files[path], encoding="utf-8")
        else:
            target.unlink()


def main(arguments: Sequence[str]) -> int:
    """Render, or with `--check` only compare; return an exit code."""
    try:
        files = rendered_files(Helm())
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        return 1
    paths = outdated(files)
    if "--check" in arguments:
        if paths:
            print("Out of date, run `make manifests`:", *paths, sep="\n  ", file=sys.stderr)
        return 1 if paths else 0
    _write(files, paths)
    print(*(f"include/manifests/{path}" for path in paths), f"{len(paths)} files changed.", sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
