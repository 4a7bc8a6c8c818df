"""The alert rules, read and tried out by Prometheus' own promtool: each fires when it must, and only then."""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest
import yaml

from include.model_release.monitoring.families import FAMILIES
from include.sandbox.host.settings import PROJECT_ROOT
from tests.support.monitoring.alert_cases import CASES, Case
from tests.support.monitoring.manifests import alerts, rule_files, rule_groups, rules

RUNBOOK = PROJECT_ROOT / "docs" / "runbook.md"
BASE = "https://git.example.com/slipway/blob/main/docs/runbook.md#"


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Run promtool."""
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_promtool_takes_the_rules(promtool: str, tmp_path: Path) -> None:
    """Every expression parses, and no two rules are the same; lint finds nothing either."""
    files = [str(path) for path in rule_files(tmp_path)]
    done = run(promtool, "check", "rules", "--lint=all", "--lint-fatal", *files)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sum(map(int, re.findall(r"(\d+) rules found", done.stdout))) == len(rules())


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.alert}: {case.told}")
def test_an_alert_fires_when_it_must_and_only_then(promtool: str, tmp_path: Path, case: Case) -> None:
    """As the case says, with its labels, and with its texts filled in."""
    files = [path.name for path in rule_files(tmp_path)]
    tests = [case.to_promtool(alerts()[case.alert])]
    test = {
        "rule_files": files,
        "evaluation_interval": case.interval,
        # What an alert asks of a recorded series is recorded before.
        "group_eval_order": rule_groups(),
        "tests": tests,
    }
    (tmp_path / "case.yaml").write_text(yaml.safe_dump(test), encoding="utf-8")
    done = run(promtool, "test", "rules", str(tmp_path / "case.yaml"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_has_a_case_that_fires_and_one_that_does_not() -> None:
    """No rule is there that nobody has seen fire, or stay silent."""
    seen: dict[str, set[bool]] = defaultdict(set)
    for case in CASES:
        seen[case.alert].add(case.fires is not None)
    assert seen == {name: {True, False} for name in alerts()}


def test_each_alert_leads_to_its_section_of_the_runbook() -> None:
    """The address ends with the alert's name, and the runbook has a heading of that name."""
    headings = re.findall(r"^### (\w+)$", RUNBOOK.read_text(encoding="utf-8"), re.MULTILINE)
    for name, rule in alerts().items():
        assert rule["annotations"]["runbook_url"] == f"{BASE}{name.lower()}"
        assert name in headings
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}


def test_rules_ask_for_metrics_that_there_are() -> None:
    """Every name in an expression is one that Slipway exports, or one that a rule records."""
    known = {family.name for family in FAMILIES} | {rule["record"] for rule in rules() if "record" in rule}
    for rule in rules():
        named = set(re.findall(r"\bslipway[_:]\w+", rule["expr"]))
        assert named <= known, rule
        assert named or "up{" in rule["expr"]
