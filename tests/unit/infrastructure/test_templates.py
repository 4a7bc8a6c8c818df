"""All templates: what cfn-lint says, and CloudFormation's limits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cfnlint.api import lint
from cfnlint.config import ManualArgs

from slipway_infrastructure.__main__ import main
from slipway_infrastructure.stacks import STACKS
from slipway_infrastructure.template import LIMIT_BYTES, Json

EVERY_RULE = ManualArgs(regions=["eu-west-1"], include_checks=["I"])
"""Warnings and information too; no rule is ignored."""

stacks = pytest.mark.parametrize("stack", STACKS)


def said_of(template: Json) -> list[str]:
    """What cfn-lint says of a template."""
    return [
        f"{match.rule.id} {match.message} {match.path}"
        for match in lint(json.dumps(template), config=EVERY_RULE)
    ]


@stacks
def test_cfn_lint_is_content(stack: str) -> None:
    """Every property, reference and value is one that CloudFormation's own schemas have."""
    assert said_of(STACKS[stack]()) == []


def test_cfn_lint_would_find_a_wrong_property() -> None:
    """The check is not empty: a name and a value that AWS does not have are found."""
    template = STACKS["cluster"]()
    template["Resources"]["ServingNodes"]["Properties"]["CapacityType"] = "CHEAP"
    template["Resources"]["GpuNodes"]["Properties"]["Taint"] = []
    assert {line.split()[0] for line in said_of(template)} == {"E3030", "E3002"}


@stacks
def test_a_template_needs_no_bucket_to_be_deployed_from(stack: str, tmp_path: Path) -> None:
    """`aws cloudformation deploy` sends a file of this size itself."""
    assert main(["--to", str(tmp_path), stack]) == 0
    (file,) = tmp_path.iterdir()
    assert file.stat().st_size < LIMIT_BYTES
    assert json.loads(file.read_text(encoding="utf-8")) == STACKS[stack]()


@stacks
def test_every_parameter_and_output_says_what_it_is(stack: str) -> None:
    """A person who deploys a stack sees a description for each."""
    template = STACKS[stack]()
    for part in ("Parameters", "Outputs"):
        for name, one in template.get(part, {}).items():
            assert one["Description"].endswith("."), name


def test_the_program_writes_all_stacks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without names it writes every template, and prints the files in the order of deployment."""
    assert main(["--to", str(tmp_path / "made")]) == 0
    assert capsys.readouterr().out.splitlines() == [
        str(tmp_path / "made" / f"{name}.json") for name in STACKS
    ]


def test_an_unknown_stack_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message names the stacks that there are, and nothing is written."""
    with pytest.raises(SystemExit) as caught:
        main(["--to", str(tmp_path / "made"), "storge"])
    assert caught.value.code == 2
    assert "no stack is named 'storge'; the stacks are registry" in capsys.readouterr().err
    assert not (tmp_path / "made").exists()


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The program ends with 1 and says why."""
    (tmp_path / "file").touch()
    assert main(["--to", str(tmp_path / "file")]) == 1
    assert "the templates could not be written" in capsys.readouterr().err
