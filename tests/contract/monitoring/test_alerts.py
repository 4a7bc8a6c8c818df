"""The alert rules, read and tried out by Prometheus' own promtool: each fires when it must, and only then."""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest
import yaml

from slipway_core.monitoring.families import FAMILIES
from slipway_sandbox.host.settings import PROJECT_ROOT
from tests.support.monitoring.alert_cases import CASES, Case
from tests.support.monitoring.manifests import alerts, rule_files, rule_groups, rules

RUNBOOK = PROJECT_ROOT / "docs" / "runbook.md"
BASE = "https://git.example.com/slipway/blob/main/docs/runbook.md#"


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Run promtool; what it says of an error stands beside what it says of its file."""
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=120
    )


def test_promtool_takes_the_rules(promtool: str, tmp_path: Path) -> None:
    """Every expression parses, and no two rules are the same; lint finds nothing either."""
    files = [str(path) for path in rule_files(tmp_path)]
    done = run(promtool, "check", "rules", "--lint=all", "--lint-fatal", *files)
    assert done.returncode == 0, done.stdout
    assert sum(map(int, re.findall(r"(\d+) rules found", done.stdout))) == len(rules())


@pytest.fixture(scope="module")
def told(promtool: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What promtool says of each case, by the name of its file; one process tries all of them."""
    folder = tmp_path_factory.mktemp("alerts")
    files = [path.name for path in rule_files(folder)]
    for case in CASES:
        test = {
            "rule_files": files,
            "evaluation_interval": case.interval,
            # What an alert asks of a recorded series is recorded before.
            "group_eval_order": rule_groups(),
            "tests": [case.to_promtool(alerts()[case.alert])],
        }
        (folder / _file(case)).write_text(yaml.safe_dump(test), encoding="utf-8")
    done = run(promtool, "test", "rules", *(str(folder / _file(case)) for case in CASES))
    # "Unit Testing:  PATH", and what is said of it up to the next one.
    parts = re.split(r"^Unit Testing:\s+(\S+)$", done.stdout, flags=re.MULTILINE)[1:]
    return {Path(path).name: said for path, said in zip(parts[::2], parts[1::2], strict=True)}


def _file(case: Case) -> str:
    return f"case-{CASES.index(case)}.yaml"


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.alert}: {case.description}")
def test_an_alert_fires_when_it_must_and_only_then(told: dict[str, str], case: Case) -> None:
    """As the case says, with its labels, and with its texts filled in."""
    assert told[_file(case)].strip() == "SUCCESS"


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
