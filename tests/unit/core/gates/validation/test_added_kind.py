"""A kind of answers that another package adds: read from a release file, judged by the gate, shown on the page."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from slipway_core.gates.validation.kind import ValidationKind
from slipway_core.kind_registry import KindUnusableError
from slipway_core.spec.validation import Validation
from tests.support.other_package import ROOT, install, run_installed

MODULE = '''
from typing import Any, ClassVar, Literal

import numpy as np

from slipway_core.gates.validation.golden_labels import LabelRules
from slipway_core.gates.validation.kind import ExamplesTable, ValidationKind, validation_kind
from slipway_core.gates.validation.measured import Measure, MeasuredScores, columns_of
from slipway_core.spec.parts import Share, Text


@validation_kind
class SignValidation(ValidationKind):
    """The model says on which side of 0 a number lies."""

    labels: ClassVar[LabelRules] = LabelRules("signs, -1 or 1", "i")
    examples: ClassVar[ExamplesTable] = ExamplesTable("Wrong signs.", (("Golden row#", "row"), ("Answered", "answer")))
    kind: Literal["sign"] = "sign"
    output: Text = "side"
    right_min: Share = 0.75
    """Share of the rows whose sign must be right."""

    def score(self, golden: Any, answers: Any, stable_answers: Any) -> MeasuredScores:
        right = np.sign(answers) == golden.labels
        measures = [Measure(column="right", caption="Right signs", values=right.astype(float), least=self.right_min,
                            meaning="enough signs are right")]
        worst = tuple({"row": int(row), "answer": float(answers[row])} for row in np.flatnonzero(~right))
        return MeasuredScores(rows=golden.rows, agreement=None, columns=columns_of(measures, np.isfinite(answers)),
                              worst=worst, measures=tuple(measures), validation=self)
'''
GROUP = "slipway.validation_kinds"
PROGRAM = """
    import json
    import numpy as np
    from slipway_core.gates.validation.gate import require_validation, score, validation_report
    from slipway_core.gates.validation.golden_set import golden_from_arrays
    from slipway_core.gates.validation.kind import kind_of
    from slipway_core.reports.validation.page import render_report_html
    from slipway_core.spec.json_schema import release_file_schema
    from slipway_core.spec.release_file import ReleaseSpec, parse_release_spec, release_spec_of
    from slipway_core.tensors import ModelSignature

    spec = parse_release_spec("model: sides\\nsource: {}\\nvalidation: {kind: sign, right_min: 0.9}", "sides.yaml")
    signature = ModelSignature.model_validate_json(json.dumps({
        "inputs": [{"name": "x", "datatype": "FP64", "shape": [-1]}],
        "outputs": [{"name": "side", "datatype": "FP64", "shape": [-1]}],
    }))
    x = np.linspace(-1.0, 1.0, 10)
    golden = golden_from_arrays(
        {"x": x, "label": np.sign(x).astype(int)}, signature, "label", labelled=kind_of(spec.validation).labels
    )
    scores = score(golden, np.abs(x), None, spec.validation)
    results = [
        {**one, "success": one["kwargs"].get("column") != "right", "observed": 0.5}
        for one in scores.suite()
    ]
    report = validation_report(
        model="sides", version=1, stable_version=None, created_at="2026-11-21T03:00:00+00:00",
        numbers=scores, results=results,
    )
    try:
        require_validation(report)
    except Exception as error:
        refusal = f"{type(error).__name__}: {error}"
    again = release_spec_of(spec.model_dump(mode="json", exclude_unset=True), "a task")
    schema = release_file_schema()["$defs"]["SignValidation"]["properties"]["right_min"]
    print(json.dumps({
        "kept": again == spec, "refusal": refusal, "kind": report["kind"], "right": report["numbers"]["right"],
        "page": render_report_html(report), "schema": schema,
    }))
"""


def test_a_kind_of_another_package_is_read_judged_and_shown(tmp_path: Path) -> None:
    """One class and one entry point: the release file takes it, the gate refuses by it, the page shows its table."""
    install(tmp_path, "sign-kind", MODULE, {GROUP: {"sign": "sign_kind:SignValidation"}})
    done = run_installed(tmp_path, PROGRAM)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["kept"], found["kind"], found["right"]) == (True, "sign", 0.5)
    assert found["refusal"].startswith("ValidationRefusedError")
    assert "enough signs are right" in found["refusal"]
    assert "Right signs" in found["page"]
    assert "Wrong signs." in found["page"]
    assert found["schema"]["description"] == "Share of the rows whose sign must be right."


def test_its_keys_are_checked_as_any_other(tmp_path: Path) -> None:
    """A typo in a key of the added kind is told with the right one, and an unknown kind with the added one."""
    install(tmp_path, "sign-kind", MODULE, {GROUP: {"sign": "sign_kind:SignValidation"}})
    program = """
        import sys
        from slipway_core.spec.release_file import parse_release_spec
        for text in sys.argv[1:]:
            try:
                parse_release_spec(f"model: a\\nsource: {{}}\\nvalidation: {text}", "a.yaml")
            except Exception as error:
                print(error)
    """
    done = run_installed(tmp_path, program, "{kind: sign, rigt_min: 1}", "{kind: sine}")
    typo, unknown = done.stdout.splitlines()
    assert "Did you mean `validation.right_min`?" in typo
    assert re.search(r"one of classification, .*vectors, sign\b", unknown)


@pytest.mark.parametrize("kind", Validation.registry.built_in())
def test_each_kind_has_its_rows_in_the_documents(kind: str) -> None:
    """docs/gates.md and docs/bring-your-model.md have one row for it, which names only keys that it has."""
    found: type[ValidationKind] = Validation.registry.get(kind)
    for page in ("gates.md", "bring-your-model.md"):
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        text = text[text.index("| `kind` | labels |") :].split("\n\n")[0]
        (row,) = re.findall(rf"^\| `{kind}`.*$", text, re.MULTILINE)
        named = {name for name in re.findall(r"`(\w+)`", row) if name != kind}
        assert named <= found.model_fields.keys()
        assert row.split("|")[2].strip().startswith("none") is found.labels.optional


def test_what_is_no_kind_is_refused_where_it_is_added() -> None:
    """A class of another family is told at once."""
    with pytest.raises(KindUnusableError, match="a class derived from"):
        Validation.registry.register(dict)
