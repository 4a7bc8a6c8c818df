"""score_answers: a scorer of the user's own, run in a process of its own; whatever it does, the result says so."""

from __future__ import annotations

import io

import numpy as np
import pytest

from slipway_core.errors import UserError
from slipway_core.gates.validation.scoring.returned import read_returned
from tests.support.pods.scoring import EXAMPLE, ROWS, Scorer
from tests.support.pods.support import ObjectStore, Pod

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def scorer(score_pod: Pod, store: ObjectStore, prefix: str) -> Scorer:
    """The program, with a voice detector's answers."""
    return Scorer(score_pod, store, prefix)


def test_the_examples_scores_and_figures_come_back(scorer: Scorer) -> None:
    """Scores by row, and a figure that is no mean with its interval by the bootstrap; the same again is the same."""
    run = scorer.run(EXAMPLE)
    assert run.exit_code == 0, run.stderr
    found = scorer.returned(run)
    assert found.scores["margin"].tolist() == pytest.approx([0.3] * ROWS)
    assert found.scores["agrees"].tolist() == [1.0] * ROWS
    figure = found.figures["eer_percent"]
    assert (figure.value, figure.low, figure.high, figure.samples) == (0.0, 0.0, 0.0, 250)
    assert scorer.returned(scorer.run(EXAMPLE)).figures == found.figures


def test_a_scorer_is_given_texts_as_texts_and_no_keys(scorer: Scorer) -> None:
    """Inputs are plain arrays by name, and the variables with the pod's keys are not there."""
    run = scorer.run(
        "import os\n"
        "def score(inputs, labels, answers, stable):\n"
        "    keys = [name for name in os.environ if name.startswith('AWS_')]\n"
        "    assert keys == [], keys\n"
        "    assert inputs['text'][0] == 'caf\\u00e9' and inputs['text'].dtype.kind == 'U'\n"
        "    return {'length': [len(one) for one in inputs['text']]}\n"
    )
    assert run.exit_code == 0, run.stdout
    found = scorer.returned(run)
    assert (found.scores["length"].tolist(), found.figures) == ([4.0] * ROWS, {})


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("def score(*_): raise KeyError('speech')", "KeyError: 'speech'"),
        ("import os\ndef score(*_): os._exit(0)", "is not there or too large"),
        ("import os\ndef score(*_): os._exit(9)", "exit code 9"),
        ("def score(*_): return {'a': bytearray(3 << 30)}", "MemoryError"),
    ],
)
def test_a_scorer_that_is_wrong_is_the_users_to_mend(scorer: Scorer, program: str, told: str) -> None:
    """The result names what the scorer did, and no score is left that could be taken for one."""
    run = scorer.run(program)
    assert run.exit_code == 3
    assert run.error["kind"] == "UserError"
    assert told in f"{run.error['what']} {run.error['found']}"
    assert run.result is not None
    assert "scores" not in run.result


def test_a_scorer_that_does_not_end_is_ended(scorer: Scorer) -> None:
    """A loop without end costs its time limit, and no more."""
    run = scorer.run("def score(*_):\n    while True: pass", "--timeout-s", "2")
    assert (run.exit_code, run.error["what"]) == (3, "The scorer did not end in time")


@pytest.mark.parametrize("end", ["", "\\n"])
def test_a_scorer_that_prints_without_end_is_ended(scorer: Scorer, end: str) -> None:
    """Neither the pod's memory nor its log is filled, in one line as in many, and the error says what to do."""
    run = scorer.run(f"def score(*_):\n    while True: print('x' * 1000, end='{end}')", "--timeout-s", "60")
    assert (run.exit_code, run.error["what"]) == (3, "The scorer printed more than it may, and was ended")
    assert "print less" in run.error["remedy"]
    assert len(run.stdout) < 6 * 2**20


def test_slow_figures_have_no_interval(scorer: Scorer) -> None:
    """Where too few rows could be drawn anew in time, how sure a figure is stays unknown."""
    slow = (
        "import time\n"
        "def score(*_): return {'a': [1.0] * 40}\n"
        "def figures(scores):\n    time.sleep(0.1)\n    return {'b': 2.0}\n"
    )
    found = scorer.returned(scorer.run(slow, "--timeout-s", "5"))
    assert (found.figures["b"].value, found.figures["b"].low) == (2.0, None)
    assert found.figures["b"].samples < 50


def test_answers_that_changed_meanwhile_are_not_scored(scorer: Scorer) -> None:
    """What another try of the task has written is told, to be tried again."""
    run = scorer.run(EXAMPLE, given_sha256="0" * 64)
    assert (run.exit_code, run.error["kind"]) == (75, "TransientError")


def test_a_result_that_somebody_changed_is_refused(scorer: Scorer) -> None:
    """Scores of another run, of other rows or of another form are no scores."""
    run = scorer.run(EXAMPLE)
    assert run.result is not None
    scores = scorer.store.read(f"{scorer.prefix}/scores.npz")
    other = io.BytesIO()
    np.savez(other, margin=np.ones(ROWS))
    for result, content, rows in (
        (run.result, other.getvalue(), ROWS),
        (run.result, scores, ROWS + 1),
        ({**run.result, "figures": {"a b": {"value": 1}}}, scores, ROWS),
        ({**run.result, "figures": {"margin": {"value": 1}}}, scores, ROWS),
        ({**run.result, "figures": {"x": {"value": float("inf")}}}, scores, ROWS),
        ({**run.result, "given_sha256": "x"}, scores, ROWS),
        ({}, scores, ROWS),
        (run.result, b"PK", ROWS),
    ):
        with pytest.raises(UserError, match="another form than it should"):
            read_returned(result, content, rows)
