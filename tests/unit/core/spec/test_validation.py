"""The release file's `validation`: a kind each, the old keys as they were, and errors that a person can act upon."""

from __future__ import annotations

import pytest

from slipway_core.errors import SpecError
from slipway_core.gates.mirror_comparison import mirror_limits
from slipway_core.gates.validation.kinds.classification import ClassificationValidation
from slipway_core.gates.validation.kinds.regression import RegressionValidation
from slipway_core.gates.validation.kinds.text import TextValidation
from slipway_core.spec.release_file import MirrorComparison, ReleaseSpec, apply_overrides, parse_release_spec


def spec_of(validation: str) -> ReleaseSpec:
    """A release file with that `validation`."""
    return parse_release_spec(f"model: prices\nsource: {{}}\nvalidation: {validation}\n", "prices.yaml")


def test_a_file_without_a_kind_is_a_classification() -> None:
    """The keys of old mean what they meant."""
    validation = spec_of(
        "{output: p, label: y, accuracy_min: 0.5, agreement_min: 0.4, batch_size: 8}"
    ).validation
    assert validation == ClassificationValidation(
        output="p", label="y", accuracy_min=0.5, agreement_min=0.4, batch_size=8
    )


def test_each_kind_has_its_own_keys_and_outputs() -> None:
    """Regressors answer `prediction`, text models `text_output`, unless the file says otherwise."""
    regression = spec_of("{kind: regression, rmse_max: 3}").validation
    assert isinstance(regression, RegressionValidation)
    assert (regression.output, regression.rmse_max, regression.mae_max) == ("prediction", 3.0, None)
    text = spec_of("{kind: text, match: token_f1}").validation
    assert isinstance(text, TextValidation)
    assert (text.output, text.match, text.responses) == ("text_output", "token_f1", "join")


@pytest.mark.parametrize(
    ("validation", "words"),
    [
        (
            "{kind: regresion}",
            r"line 3: `validation\.kind` has a wrong value.*classification, custom, .*regression, .*text",
        ),
        ("{kind: regression}", r"needs a limit: `mae_max`, `rmse_max` or `r2_min`"),
        ("{kind: text, accuracy_min: 1}", r"only another `kind` of `validation` has it"),
        ("{kind: text, score_mim: 1}", r"Did you mean `validation\.score_min`"),
        ("{mae_max: 1}", r"unknown key `validation\.mae_max`.*only another `kind`"),
    ],
)
def test_wrong_keys_and_kinds_are_named(validation: str, words: str) -> None:
    """A key of another kind, a typo and a missing limit are told with what would be right."""
    with pytest.raises(SpecError, match=words):
        spec_of(validation)


def test_a_run_may_change_a_limit_of_the_kind() -> None:
    """Overrides are laid over the kind that the file names."""
    changed = apply_overrides(spec_of("{kind: text}"), {"validation": {"score_min": 0.5}}, "the run")
    assert isinstance(changed.validation, TextValidation)
    assert changed.validation.score_min == 0.5
    assert parse_release_spec(changed.model_dump_json(), "pinned").validation == changed.validation


def test_only_classes_can_agree_in_the_mirror() -> None:
    """Mirrored answers of other kinds show no class, so none is asked for unless `rollout.mirror_comparison` does."""
    assert mirror_limits(spec_of("{agreement_min: 0.7}"), MirrorComparison()).agreement_min == 0.7
    regression = spec_of("{kind: regression, mae_max: 1}")
    assert mirror_limits(regression, MirrorComparison()).agreement_min == 0.0
    assert mirror_limits(regression, MirrorComparison(agreement_min=0.5)).agreement_min == 0.5
