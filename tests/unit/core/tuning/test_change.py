"""The proposed change of a release file: it says the setting, and nothing else changes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipway_core.spec.release_file import parse_release_spec
from slipway_core.tuning.change import propose_change
from slipway_core.tuning.settings import Setting
from tests.support.examples import examples
from tests.support.tuning.plans import CONFIG

DIGITS = (Path(__file__).parents[4] / "include" / "releases" / "digits.yaml").read_text()
HEAD = "model: digits\nsource: {format: onnx}   # what training leaves\n"
TEXTS = [
    DIGITS,
    HEAD,
    f"{HEAD}serving:\n  # as measured in May\n  max_batch_size: 64   # rows\n\n# the end\n",
    f"{HEAD}serving: {{dynamic_batching: null, instances: [{{kind: cpu}}]}}\n",
    f"{HEAD}serving:\n    dynamic_batching: {{preserve_ordering: true}}\n    instances:\n    -   kind: cpu # no GPU\n",
]
SETTINGS = st.builds(
    Setting,
    max_queue_delay_us=st.none() | st.integers(0, 10_000),
    preferred_batch_sizes=st.sets(st.integers(1, 64), max_size=3).map(lambda sizes: tuple(sorted(sizes))),
    instances=st.none() | st.integers(1, 64),
).map(lambda one: one if one.max_queue_delay_us is not None else Setting(instances=one.instances))


@settings(max_examples=examples(25), deadline=None)
@given(text=st.sampled_from(TEXTS), setting=SETTINGS)
def test_the_new_file_says_the_setting_and_nothing_else_new(text: str, setting: Setting) -> None:
    """Batching and instances are the setting's; the other parts are as before, and so are comments on other lines."""
    before = parse_release_spec(text, "digits.yaml")
    change = propose_change(text, "digits.yaml", setting, CONFIG)
    after = parse_release_spec(change.text, "digits.yaml")
    batching = after.serving.dynamic_batching
    if setting.max_queue_delay_us is None:
        assert batching is None
    else:
        assert batching is not None
        assert batching.max_queue_delay_us == setting.max_queue_delay_us
        assert tuple(batching.preferred_batch_sizes or ()) == setting.preferred_batch_sizes
        assert batching.preserve_ordering == bool(
            before.serving.dynamic_batching and before.serving.dynamic_batching.preserve_ordering
        )
    if setting.instances is not None:
        assert after.serving.instances is not None
        assert after.serving.instances[0].count == setting.instances
    kept = {"dynamic_batching", "instances"}
    assert after.serving.model_dump(exclude=kept) == before.serving.model_dump(exclude=kept)
    assert after.model_dump(exclude={"serving"}) == before.model_dump(exclude={"serving"})
    comments = [line for line in text.splitlines() if line.lstrip().startswith("#")]
    assert [line for line in change.text.splitlines() if line.lstrip().startswith("#")] == comments


@settings(max_examples=examples(10), deadline=None)
@given(setting=SETTINGS)
def test_the_demos_file_changes_in_the_lines_concerned_alone(setting: Setting) -> None:
    """Every line outside of batching and instances is as it was, to the last byte."""
    changed = propose_change(DIGITS, "digits.yaml", setting, CONFIG).text.splitlines()
    concerned = ("max_queue_delay_us", "preferred_batch_sizes", "dynamic_batching", "{kind: cpu")

    def others(lines: list[str]) -> list[str]:
        return [line for line in lines if not line.lstrip("- ").startswith(concerned)]

    assert others(changed) == others(DIGITS.splitlines())


def test_the_present_setting_changes_nothing() -> None:
    """The diff of a file that says it already is empty."""
    setting = Setting(max_queue_delay_us=1000, instances=1)
    assert propose_change(DIGITS, "digits.yaml", setting, CONFIG).diff == ""


@pytest.mark.parametrize("text", TEXTS)
def test_the_diff_can_be_applied(text: str, tmp_path: Path) -> None:
    """`git apply` makes the new text of it."""
    (tmp_path / "digits.yaml").write_text(text)
    setting = Setting(max_queue_delay_us=500, preferred_batch_sizes=(4, 8), instances=2)
    change = propose_change(text, "digits.yaml", setting, CONFIG)
    applied = subprocess.run(
        ["git", "apply", "-"], cwd=tmp_path, input=change.diff, text=True, capture_output=True, check=False
    )
    assert applied.returncode == 0, applied.stderr
    assert (tmp_path / "digits.yaml").read_text() == change.text


def test_instances_are_written_where_the_file_names_none() -> None:
    """On what they run the published configuration says."""
    config = {**CONFIG, "instance_group": [{"kind": "KIND_GPU", "gpus": [1], "count": 1}]}
    change = propose_change(HEAD, "digits.yaml", Setting(instances=2), config)
    spec = parse_release_spec(change.text, "digits.yaml")
    (group,) = spec.serving.instances or ()
    assert (group.kind, group.count, group.gpus) == ("gpu", 2, (1,))


def test_sizes_that_training_prefers_are_taken_back() -> None:
    """What a release file does not mention stays as training wrote it: so an empty list is written."""
    config = {**CONFIG, "dynamic_batching": {"preferred_batch_size": [8]}}
    text = propose_change(HEAD, "digits.yaml", Setting(max_queue_delay_us=0), config).text
    assert "preferred_batch_sizes: []" in text
