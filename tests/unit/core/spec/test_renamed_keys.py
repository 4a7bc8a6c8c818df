"""Keys and values of release files that were called otherwise: taken for one release, with a warning."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipway_core.errors import SpecError
from slipway_core.spec.__main__ import main
from slipway_core.spec.release_file import ReleaseSpec, parse_release_spec
from slipway_core.spec.renamed_keys import RENAMED_KEYS, RENAMED_VALUES, RenamedKeyWarning
from slipway_core.yaml_source import dotted

_HEAD = "model: digits\nsource: {format: onnx}\nrollout:\n  preview: {}\n"
FORMER = f"{_HEAD}  on_inconclusive: top_up\n  top_up: {{requests_per_s: 4}}\n  mirror: {{requests: 20}}\n"
NEW = (
    f"{_HEAD}  on_inconclusive: golden_replay\n  golden_replay: {{requests_per_s: 4}}\n"
    "  mirror_comparison: {requests: 20}\n"
)


def test_former_names_mean_what_the_new_ones_mean() -> None:
    """A file with former names is the same value as one with new names, which it is written with from then on."""
    with pytest.warns(RenamedKeyWarning):
        former = parse_release_spec(FORMER, "digits.yaml")
    new = parse_release_spec(NEW, "digits.yaml")
    assert former == new
    assert former.model_dump(mode="json", exclude_unset=True) == new.model_dump(
        mode="json", exclude_unset=True
    )


def test_each_former_name_is_told_with_its_line_and_its_new_name() -> None:
    """Three former names, three warnings, each of which names file, line, and both names."""
    with pytest.warns(RenamedKeyWarning) as told:
        parse_release_spec(FORMER, "digits.yaml")
    assert sorted(str(one.message).partition(";")[0] for one in told) == [
        "digits.yaml, line 5: `rollout.on_inconclusive: top_up` is now `rollout.on_inconclusive: golden_replay`",
        "digits.yaml, line 6: the key `rollout.top_up` is now `rollout.golden_replay`",
        "digits.yaml, line 7: the key `rollout.mirror` is now `rollout.mirror_comparison`",
    ]


def test_new_names_are_no_matter_for_a_warning(recwarn: pytest.WarningsRecorder) -> None:
    """A file with new names is read without a warning."""
    parse_release_spec(NEW, "digits.yaml")
    assert not [one for one in recwarn if issubclass(one.category, RenamedKeyWarning)]


@pytest.mark.parametrize(
    "both", ["  golden_replay: {}\n  top_up: {}\n", "  mirror: {}\n  mirror_comparison: {}\n"]
)
def test_both_names_at_once_are_refused(both: str) -> None:
    """Which of two values is meant cannot be known: the error names the line and both keys."""
    with pytest.raises(
        SpecError, match=r"digits\.yaml, line [56]: .* is the former name of .*, which is there too"
    ):
        parse_release_spec(_HEAD + both, "digits.yaml")


def test_a_fault_under_a_former_name_is_told_with_its_line() -> None:
    """An error below a former key has the line of the file and the key's new name."""
    text = f"{_HEAD}  top_up:\n    requests_per_s: 900\n"
    with (
        pytest.warns(RenamedKeyWarning),
        pytest.raises(SpecError, match=r"line 6: `rollout\.golden_replay\.requests_per_s` has a wrong value"),
    ):
        parse_release_spec(text, "digits.yaml")


@pytest.mark.parametrize(
    "rollout", ["top_up", "[top_up]", "{top_up: 3}", "{on_inconclusive: [top_up]}", "null"]
)
def test_a_value_of_another_form_is_an_error_and_no_crash(rollout: str) -> None:
    """Former names in a place where they mean nothing are refused as anything else there is."""
    text = f"model: digits\nsource: {{format: onnx}}\nrollout: {rollout}\n"
    with pytest.raises(SpecError, match=r"digits\.yaml"):
        parse_release_spec(text, "digits.yaml")


def test_every_new_name_is_a_key_of_the_release_file() -> None:
    """The table leads to keys and values that there are, and from keys and values that there are no more."""
    fields = {("rollout",): ReleaseSpec.model_fields["rollout"].annotation}
    for former, new in RENAMED_KEYS.items():
        known = fields[former[:-1]].model_fields  # type: ignore[union-attr]
        assert new in known, dotted(former)
        assert former[-1] not in known, dotted(former)
    for path, names in RENAMED_VALUES.items():
        allowed = str(fields[path[:-1]].model_fields[path[-1]].annotation)  # type: ignore[union-attr,index]
        assert all(repr(new) in allowed and repr(former) not in allowed for former, new in names.items())


def test_the_program_tells_former_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`python -m slipway_core.spec FILE` accepts the file, and prints a line for each former name."""
    file = tmp_path / "digits.yaml"
    file.write_text(FORMER)
    assert main([str(file)]) == 0
    told = capsys.readouterr()
    assert told.err.count("Warning: digits.yaml, line ") == 3
    assert "is now `rollout.golden_replay`" in told.err
    assert "digits, 4 steps" in told.out
