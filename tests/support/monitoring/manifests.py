"""What lies in include/manifests/monitoring: the rules as Prometheus itself reads them, and the dashboard."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from slipway_sandbox.host.settings import PROJECT_ROOT

FOLDER = PROJECT_ROOT / "include" / "manifests" / "monitoring"
RULES = (FOLDER / "prometheus-rule.yaml", FOLDER / "prometheus-rule-live-age.yaml")
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "grafana-dashboard.json").read_text(encoding="utf-8"))


def rule_files(folder: Path) -> list[Path]:
    """Write what stands below `spec` of each PrometheusRule to a file of its own; return the files."""
    written = []
    for path in RULES:
        spec = yaml.safe_load(path.read_text(encoding="utf-8"))["spec"]
        file = folder / f"{path.stem}.rules.yaml"
        file.write_text(yaml.safe_dump(spec, sort_keys=False), encoding="utf-8")
        written.append(file)
    return written


def _groups() -> list[dict[str, Any]]:
    specs = (yaml.safe_load(path.read_text(encoding="utf-8"))["spec"] for path in RULES)
    return [group for spec in specs for group in spec["groups"]]


def rule_groups() -> list[str]:
    """Return the name of every group of rules."""
    return [group["name"] for group in _groups()]


def rules() -> list[dict[str, Any]]:
    """Return every rule."""
    return [rule for group in _groups() for rule in group["rules"]]


def alerts() -> dict[str, dict[str, Any]]:
    """Return every alert by its name."""
    return {rule["alert"]: rule for rule in rules() if "alert" in rule}
