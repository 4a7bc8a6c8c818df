"""The release file: defaults, rules between keys, and errors that name file, line and key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_core.errors import SpecError, UnknownModelError
from slipway_core.spec.__main__ import main
from slipway_core.spec.release_file import (
    ReleaseSpec,
    Toleration,
    apply_overrides,
    load_model_spec,
    load_release_spec,
    parse_release_spec,
)
from tests.support.spec.refusals import ENSEMBLE, LLM, MINIMAL, PYTHON, refusal

_RELEASES = Path(__file__).parents[4] / "include" / "releases"


def test_model_and_source_are_enough() -> None:
    """All the rest has a default; the InferenceService is called as the model."""
    spec = parse_release_spec(MINIMAL, "digits.yaml")
    assert spec.rollout.inference_service == "digits"
    assert spec.benchmark.image == "slipway/perf-analyzer:0.1.0"
    assert [step.weight for step in spec.rollout.steps] == [5, 25, 50, 99]


@pytest.mark.parametrize("path", sorted(_RELEASES.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_release_files_of_the_project_are_valid(path: Path) -> None:
    """Every file in include/releases/ can be read and is about the model it is named after."""
    assert load_model_spec(_RELEASES, path.stem).model == path.stem


def test_a_typo_in_a_key_names_file_line_key_and_the_nearest_key() -> None:
    """`max_batchsize` is answered with file, line, the whole key and `max_batch_size`."""
    error = refusal(MINIMAL + "serving:\n  platform: onnxruntime_onnx\n  max_batchsize: 8\n")
    assert error.what == "digits.yaml, line 5: unknown key `serving.max_batchsize`"
    assert error.remedy == "Did you mean `serving.max_batch_size`?"
    assert "dynamic_batching" in (error.expected or "")


def test_a_typo_inside_a_list_is_found_too() -> None:
    """A wrong key in the second step is named with its position."""
    error = refusal(
        MINIMAL + "rollout:\n  steps:\n    - {weight: 5, bake_s: 60}\n    - {wieght: 9, bake_s: 60}\n"
    )
    assert "line 6: unknown key `rollout.steps[1].wieght`" in str(error)
    assert "`rollout.steps[1].weight`" in str(error)


def test_a_key_at_the_wrong_place_is_sent_to_the_right_one() -> None:
    """A key that is valid elsewhere is answered with where it belongs."""
    assert refusal(MINIMAL + "max_batch_size: 8\n").remedy == "Did you mean `serving.max_batch_size`?"


def test_an_unlike_key_is_to_be_removed() -> None:
    """A key that resembles nothing gets no far-fetched suggestion."""
    assert refusal(MINIMAL + "zzz: 8\n").remedy == "Remove the key."


def test_several_problems_are_reported_at_once() -> None:
    """The first problem leads and the others are named with their lines."""
    text = str(refusal(MINIMAL + "servng: {}\nvalidation: {accuracy_min: 2}\n"))
    assert "line 3: unknown key `servng`" in text
    assert "1 more problem (line 4: `validation.accuracy_min` has a wrong value)" in text


def test_a_missing_key_is_named() -> None:
    """Without `source` the error says that it is missing."""
    assert "the key `source` is missing" in str(refusal("model: digits\n"))


def test_an_unknown_target_lists_the_supported_ones() -> None:
    """A conversion target that is not supported is refused with the list of those that are."""
    error = refusal(MINIMAL + "conversion: {target: tflite}\n")
    assert (
        error.expected
        == "one of ensemble, lightgbm, onnx, python, pytorch, sklearn, tensorrt, tensorrt_llm, xgboost"
    )
    assert error.found == '`"tflite"`'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("serving: {max_batch_size: '8'}", "a whole number"),
        ("serving: {max_batch_size: true}", "a whole number"),
        ("serving: {max_batch_size: 8.5}", "a whole number"),
        ("conversion: {resources: {gpu: 0.5}}", "a whole number"),
        ("conversion: {resources: {memory: lots}}", "a Kubernetes quantity"),
        ("conversion: {image: slipway/onnx}", "an image with a tag"),
        ("conversion: {image: 'slipway/onnx:latest'}", "latest"),
        ("source2: {model_file: x}", "unknown key"),
        ("description: {a: 1}", "text"),
        ("rollout: 3", "a mapping"),
        ("rollout: {steps: 3}", "a list"),
        ("rollout: {steps: []}", "at least 1"),
        ("rollout: {namespace: A/B}", "lower-case"),
        ("rollout: {inference_service: ''}", "lower-case"),
        ("rollout: {steps: [{weight: 0, bake_s: 60}]}", "greater than or equal to 1"),
        ("rollout: {steps: [{weight: 100, bake_s: 60}]}", "less than or equal to 99"),
        ("rollout: {steps: [{weight: 5, bake_s: 60}, {weight: 5, bake_s: 60}]}", "must rise"),
        ("rollout: {steps: [{weight: 5, bake_s: 3}]}", "no window would fit"),
        ("rollout: {steps: [{weight: 5, bake_s: 700}]}", "longer than `max_bake_s: 600`"),
        ("rollout: {handover_s: 901}", "less than or equal to 900"),
        ("rollout: {drain_s: 901}", "less than or equal to 900"),
        ("rollout: {drain_s: -1}", "greater than or equal to 0"),
        ("serving: {max_batch_size: 0}", "dynamic_batching: null"),
        ("serving: {max_batch_size: 0, dynamic_batching: {preferred_batch_sizes: [1]}}", "go above"),
        ("serving: {max_batch_size: 4, dynamic_batching: {preferred_batch_sizes: [2, 8]}}", "go above"),
        ("serving: {instances: [{kind: cpu, gpus: [0]}]}", "`kind: gpu`"),
        ("validation: {batch_size: 128}", "above `serving.max_batch_size: 64`"),
        ("benchmark: {generator: genai_perf}", "`genai: {}`"),
        ("benchmark: {slo: {ttft_p99_ms: 5}}", "generator: genai_perf"),
        ("benchmark: {slo: {p99_ms: .inf}}", "a number"),
    ],
)
def test_wrong_values_are_refused_in_plain_words(text: str, words: str) -> None:
    """Wrong types, ranges and combinations are refused, and the message says what was expected."""
    error = refusal(MINIMAL + text)
    assert words in str(error)
    assert "line 3" in str(error) or "release file" in str(error)


@pytest.mark.parametrize("name", ["../model.onnx", "a/b.onnx", "..", ".hidden", ""])
def test_file_names_cannot_leave_their_folder(name: str) -> None:
    """`source.model_file` is a plain name, never a path."""
    assert "plain name" in str(refusal(f"model: digits\nsource: {{model_file: {name!r}}}\n"))


def test_text_models_get_their_generator_image() -> None:
    """With genai_perf the image's default follows the generator."""
    spec = parse_release_spec(MINIMAL + "benchmark: {generator: genai_perf, genai: {}}", "f.yaml")
    assert spec.benchmark.image == "slipway/genai-perf:0.1.0"


def test_a_small_batch_limit_shrinks_the_default_of_validation() -> None:
    """A model with a small batch limit needs no second key to be validated in batches that fit."""
    spec = parse_release_spec(MINIMAL + "serving: {max_batch_size: 8}", "f.yaml")
    assert spec.validation.batch_size == 8


@pytest.mark.parametrize(
    ("conversion", "tolerance"),
    [
        ("{precision: int8}", 0.05),
        ("{variants: {whole: {}, quick: {precision: int8}}, choose: fastest}", 0.05),
        ("{precision: int8, quantization: {method: static, calibration_file: rows.npz}}", None),
        ("{precision: fp16}", None),
    ],
)
def test_int8_with_scales_of_each_request_may_depend_on_the_batch(
    conversion: str, tolerance: float | None
) -> None:
    """Where any variant is such a one, rows in a batch have a wider tolerance, unless the file gives one."""
    health = parse_release_spec(f"{MINIMAL}conversion: {conversion}", "f.yaml").validation.health
    assert health.batch_abs_tolerance == tolerance
    said = f"{MINIMAL}conversion: {conversion}\nvalidation: {{health: {{batch_abs_tolerance: 0.2}}}}"
    assert parse_release_spec(said, "f.yaml").validation.health.batch_abs_tolerance == 0.2


def test_resources_become_those_of_kubernetes() -> None:
    """GPUs appear under nvidia.com/gpu only when asked for, and CPU is requested but not limited."""
    text = MINIMAL + "conversion: {resources: {cpu: 2, memory: 4Gi, gpu: 1}}"
    spec = parse_release_spec(text, "f.yaml")
    assert spec.conversion.resources.to_kubernetes() == {
        "requests": {"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": "1"},
        "limits": {"memory": "4Gi", "nvidia.com/gpu": "1"},
    }
    assert "nvidia.com/gpu" not in spec.rollout.resources.to_kubernetes()["limits"]


def test_tolerations_leave_out_what_is_not_said() -> None:
    """A toleration's manifest holds only the fields that are set, in Kubernetes' spelling."""
    toleration = Toleration(
        key="nvidia.com/gpu", operator="Exists", effect="NoExecute", toleration_seconds=30
    )
    assert toleration.to_kubernetes() == {
        "key": "nvidia.com/gpu",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 30,
    }


def test_overrides_replace_lists_and_merge_mappings() -> None:
    """A run's parameters change what they name and nothing else."""
    spec = parse_release_spec(MINIMAL, "f.yaml")
    changed = apply_overrides(
        spec,
        {"rollout": {"steps": [{"weight": 50, "bake_s": 20}], "approval": {"before_canary": True}}},
        "the run",
    )
    assert [step.weight for step in changed.rollout.steps] == [50]
    assert changed.rollout.approval.before_canary
    assert changed.serving == spec.serving
    assert apply_overrides(spec, {}, "the run") == spec


def test_wrong_overrides_name_their_source() -> None:
    """A fault in a run's parameters is told of the parameters, without a line."""
    spec = parse_release_spec(MINIMAL, "f.yaml")
    with pytest.raises(SpecError, match=r"^the run's parameters: unknown key `rollout.stps`"):
        apply_overrides(spec, {"rollout": {"stps": []}}, "the run's parameters")


def test_a_file_for_another_model_is_refused(tmp_path: Path) -> None:
    """The file's name and its `model` must agree."""
    (tmp_path / "cats.yaml").write_text(MINIMAL)
    with pytest.raises(SpecError, match="about another model"):
        load_model_spec(tmp_path, "cats")
    with pytest.raises(UnknownModelError, match="one of cats"):
        load_model_spec(tmp_path, "dogs")


def test_an_unreadable_file_is_a_spec_error(tmp_path: Path) -> None:
    """A file that is absent or not UTF-8 is told as such."""
    with pytest.raises(SpecError, match="No such file"):
        load_release_spec(tmp_path / "absent.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"description: caf\xe9")
    with pytest.raises(SpecError, match="cannot be read"):
        load_release_spec(tmp_path / "latin.yaml")


def _specs() -> st.SearchStrategy[dict[str, Any]]:
    weights = st.lists(st.integers(1, 99), min_size=1, max_size=5, unique=True).map(sorted)
    steps = weights.map(lambda chosen: [{"weight": weight, "bake_s": 60} for weight in chosen])
    return st.fixed_dictionaries(
        {
            "model": st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True),
            "description": st.text(max_size=20),
            "source": st.just({}),
            "serving": st.fixed_dictionaries({"max_batch_size": st.integers(1, 128)}),
            "rollout": st.fixed_dictionaries({"steps": steps}),
        }
    )


@given(_specs())
def test_a_spec_survives_being_written_and_read(value: dict[str, Any]) -> None:
    """What is read, written as JSON with all defaults and read again is the same."""
    spec = parse_release_spec(json.dumps(value), "f.yaml")
    again = parse_release_spec(json.dumps(spec.model_dump(mode="json")), "f.yaml")
    assert again == spec


def test_the_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """`--schema` prints a JSON schema that forbids unknown keys and tells what the keys mean."""
    assert main(["--schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert schema["additionalProperties"] is False
    assert set(schema["required"]) == {"model", "source"}
    assert "Percent of traffic" in schema["$defs"]["RolloutStep"]["properties"]["weight"]["description"]


def test_files_are_checked_by_the_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The program accepts good files, tells the fault of bad ones, and its exit code says which it was."""
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(MINIMAL)
    bad.write_text(MINIMAL + "servng: {}")
    assert main([str(good)]) == 0
    assert main([str(good), str(bad)]) == 1
    assert "Did you mean `serving`?" in capsys.readouterr().err


def test_a_spec_cannot_be_changed() -> None:
    """A spec is a value: assigning to it fails."""
    spec = parse_release_spec(MINIMAL, "f.yaml")
    with pytest.raises(ValueError, match="frozen"):
        spec.model = "other"
    assert isinstance(spec, ReleaseSpec)


@pytest.mark.parametrize(
    "text", [MINIMAL, PYTHON, ENSEMBLE, LLM + "conversion: {target: tensorrt_llm, tp_size: 2}\n"]
)
def test_release_file_survives_being_written_out_in_full(text: str) -> None:
    """A release file with all its defaults written out, as a release run carries it, means the same."""
    spec = parse_release_spec(text, "digits.yaml")
    assert ReleaseSpec.model_validate_json(spec.model_dump_json()) == spec


def test_dynamic_batching_that_is_written_out_goes_without_batches() -> None:
    """Triton takes it with `max_batch_size: 0`: requests wait in a queue, with priorities and limits."""
    text = "serving: {max_batch_size: 0, dynamic_batching: {max_queue_delay_us: 100}}"
    batching = parse_release_spec(
        f"model: digits\nsource: {{format: onnx}}\n{text}", "x.yaml"
    ).serving.dynamic_batching
    assert batching is not None
