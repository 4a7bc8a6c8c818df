from __future__ import annotations

from pathlib import Path

import pytest

from slipway_sandbox.load.answers import Answer, AnswerFile, Harm, failed_elsewhere, harm_by, rate_rps

STABLE, CANDIDATE = "moody-predictor-00001", "moody-predictor-00002"


def answer(sent: float, revision: str | None, error: str | None = None, took_s: float = 0.01) -> Answer:
    return Answer(sent, sent, sent + took_s, "http", revision, error)


def test_harm_lasts_from_the_first_bad_answer_to_the_last_of_any_kind() -> None:
    """A candidate's good answers before its first bad one are no harm; those after it are exposure still."""
    answers = [
        answer(1.0, CANDIDATE),
        answer(2.0, CANDIDATE, "HTTP 500"),
        answer(3.0, STABLE),
        answer(4.0, CANDIDATE, "HTTP 500"),
        answer(5.0, CANDIDATE),
        answer(9.0, STABLE),
    ]
    harm = harm_by(answers, CANDIDATE)
    assert (harm.answers, harm.bad) == (4, 2)
    assert harm.seconds == pytest.approx(3.0)


def test_harm_goes_by_when_answers_came_and_not_by_when_they_were_asked_for() -> None:
    """A slow answer that was asked for first may be the last one that a user got."""
    answers = [answer(1.0, CANDIDATE, took_s=8.0), answer(2.0, CANDIDATE, "HTTP 500", took_s=0.5)]
    harm = harm_by(answers, CANDIDATE)
    assert (harm.first_bad_at, harm.last_answer_at) == (2.5, 9.0)


@pytest.mark.parametrize("answers", [[], [answer(1.0, STABLE, "HTTP 500")], [answer(1.0, CANDIDATE)]])
def test_without_a_bad_answer_there_is_no_time_of_harm(answers: list[Answer]) -> None:
    """What the stable revision failed, and what the candidate answered well, is not the candidate's harm."""
    assert harm_by(answers, CANDIDATE).seconds is None


def test_harm_of_nobody_is_empty() -> None:
    """A revision that never answered has no moments."""
    assert harm_by([], CANDIDATE) == Harm(0, 0, None, None)


def test_failures_elsewhere_are_those_that_the_candidate_has_no_part_in() -> None:
    """A failure on stable counts, and one that no revision was reached for; good answers and the candidate's do not."""
    on_stable, nowhere = answer(1.0, STABLE, "HTTP 503"), answer(2.0, None, "ClientError")
    answers = [on_stable, nowhere, answer(3.0, CANDIDATE, "HTTP 500"), answer(4.0, STABLE)]
    assert failed_elsewhere(answers, CANDIDATE) == [on_stable, nowhere]


def test_rate_is_requests_by_the_time_between_them() -> None:
    """Five requests with four intervals of 10 ms are 100 a second, in whatever order they are given."""
    answers = [answer(1.0 + number / 100, STABLE) for number in (3, 0, 4, 1, 2)]
    assert rate_rps(answers) == pytest.approx(100.0)


@pytest.mark.parametrize("count", [0, 1])
def test_fewer_than_two_requests_have_no_rate(count: int) -> None:
    """Nothing is divided by zero."""
    assert rate_rps([answer(1.0, STABLE)] * count) == 0.0


def test_answers_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    """A line a request; one that a killed client has cut short is left out."""
    written = [answer(1.0, STABLE), answer(2.0, None, "no “route”")]
    path = tmp_path / "answers.jsonl"
    path.write_text("\n".join(one.to_line() for one in written) + '\n{"due": 3.0, "se', encoding="utf-8")
    file = AnswerFile(path)
    assert file.new_answers() == written
    assert file.new_answers() == []


def test_answers_are_read_on_from_where_reading_ended(tmp_path: Path) -> None:
    """What is written later comes with the next call, a line that was begun only once it is whole."""
    first, second = answer(1.0, STABLE), answer(2.0, CANDIDATE)
    path = tmp_path / "answers.jsonl"
    file = AnswerFile(path)
    assert file.new_answers() == []
    path.write_text(first.to_line() + "\n" + second.to_line()[:9], encoding="utf-8")
    assert file.new_answers() == [first]
    path.write_text(first.to_line() + "\n" + second.to_line() + "\n", encoding="utf-8")
    assert file.new_answers() == [second]


@pytest.mark.parametrize("line", ['{"due": 3.0, "se', "", "null", "[1]", '{"due": 3.0}'])
def test_a_line_that_is_no_answer_is_left_out(line: str, tmp_path: Path) -> None:
    """A client killed in the middle of a line loses that line and no other."""
    path = tmp_path / "answers.jsonl"
    path.write_text(answer(1.0, STABLE).to_line() + "\n" + line + "\n", encoding="utf-8")
    assert len(AnswerFile(path).new_answers()) == 1
