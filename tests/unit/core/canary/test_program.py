from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slipway_core.canary.__main__ import main
from slipway_core.canary.judge import CanaryJudge
from slipway_core.canary.recordings import read_policy
from slipway_core.errors import SlipwayError
from slipway_core.metrics.samples import Window
from slipway_core.spec.rollout.analysis import AnalysisPolicy
from slipway_sandbox.lab.simulation.recorded_canary import Traffic

_PROGRAM = (sys.executable, "-m", "slipway_core.canary")
_GOOD = {"seconds": 10, "stable": {"requests": 950, "errors": 4}, "candidate": {"requests": 50, "errors": 0}}
_BAD = {**_GOOD, "candidate": {"requests": 50, "errors": 25}}
_STEP = {"step": {"weight": 5, "bake_s": 20}}
_RELEASE = """
model: digits
source: {format: onnx, model_file: model.onnx, golden_file: golden.npz}
rollout:
  analysis: {alpha: 0.2, minimum_candidate_requests: 7}
"""


def recorded(path: Path, *lines: Any) -> str:
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return str(path)


def verdicts(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


# --- judging again ---


def test_the_program_gives_the_judges_own_verdicts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Steps, windows bare and wrapped, and windows without data: each verdict is what the judge says."""
    source, judge = Traffic(candidate_errors=0.02), CanaryJudge(AnalysisPolicy())
    lines: list[Any] = []
    expected = []
    for step, weight in enumerate((5, 25)):
        lines.append({"at": "ignored", "step": {"weight": weight, "bake_s": 60}})
        judge.begin_step(weight, 60)
        for number in range(6):
            window = source(0.0, weight)
            assert isinstance(window, Window)
            lines.append(window.to_dict() if number % 2 else {"window": window.to_dict(), "at": "ignored"})
            expected.append(judge.observe(window).to_dict())
        lines += ["", {"no_data": f"gone {step}"}]
        expected.append(judge.observe_failure(f"gone {step}").to_dict())
    main([recorded(tmp_path / "w.jsonl", *lines)])
    assert verdicts(capsys.readouterr().out) == expected


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ([_STEP, _GOOD, _GOOD], 0),
        ([_STEP, _BAD, _BAD, _BAD], 1),
        ([_STEP, _GOOD], 3),
        ([_STEP, _GOOD, _GOOD, {"no_data": "away"}], 3),
    ],
)
def test_the_exit_code_is_that_of_the_last_verdict(lines: list[Any], code: int, tmp_path: Path) -> None:
    """A pass gives 0, a fail 1, an end without a decision or without data 3."""
    assert main([recorded(tmp_path / "w.jsonl", *lines)]) == code


def test_windows_come_from_standard_input_too(tmp_path: Path) -> None:
    """With `-` the windows are read from standard input, and the verdicts are those of the file."""
    path = recorded(tmp_path / "w.jsonl", _STEP, _GOOD, _GOOD)
    piped = subprocess.run([*_PROGRAM, "-"], input=Path(path).read_text(), capture_output=True, text=True)
    from_file = subprocess.run([*_PROGRAM, path], capture_output=True, text=True)
    assert (piped.returncode, piped.stdout) == (from_file.returncode, from_file.stdout)
    assert len(verdicts(piped.stdout)) == 2


def test_a_reader_that_goes_away_is_no_traceback(tmp_path: Path) -> None:
    """When nobody reads the verdicts any more the program ends quietly, with a code of its own."""
    path = recorded(tmp_path / "w.jsonl", *[_GOOD] * 2000)
    with subprocess.Popen([*_PROGRAM, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.readline()
        running.stdout.close()
        told = running.stderr.read()
        assert (running.wait(60), told) == (141, b"")


# --- the policy ---


def test_the_policy_of_the_first_line_holds_unless_another_is_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A policy recorded with the windows is used; --policy stands above it."""
    path = recorded(tmp_path / "w.jsonl", {"policy": {"alpha": 0.1}}, _GOOD)
    other = tmp_path / "policy.yaml"
    other.write_text("alpha: 0.04\n")
    main([path])
    main([path, "--policy", str(other)])
    assert [verdict["statistics"]["threshold"] for verdict in verdicts(capsys.readouterr().out)] == [10, 25]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("alpha: 0.2\nminimum_candidate_requests: 7\n", {"alpha": 0.2, "minimum_candidate_requests": 7}),
        ('{\n\t"alpha": 0.2,\n\t"latency_ceiling_ms": null\n}', {"alpha": 0.2}),
        (_RELEASE, {"alpha": 0.2, "minimum_candidate_requests": 7}),
    ],
)
def test_a_policy_is_yaml_or_json_or_a_release_file(text: str, expected: dict[str, Any]) -> None:
    """The keys of a policy are read as YAML and as JSON, and out of a release file's `rollout.analysis`."""
    assert read_policy(text, "policy") == AnalysisPolicy.from_mapping(expected)


@pytest.mark.parametrize("text", ["alfa: 0.2", "alpha: 2", "[1]", _RELEASE.replace("0.2", "2")])
def test_a_policy_that_cannot_be_used_is_named(text: str) -> None:
    """An error in the policy says in which file it is."""
    with pytest.raises(SlipwayError, match=r"policy\.yaml"):
        read_policy(text, "policy.yaml")


# --- what cannot be read ---

_SAMPLE = {"requests": 10, "errors": 1}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("{not JSON", "{not JSON"),
        ("[1, 2]", "[1, 2]"),
        ('{"windows": {}}', "windows"),
        ('{"window": {}, "no_data": "x"}', '"window" and "no_data"'),
        ('{"window": 3}', "3"),
        ('{"window": {"seconds": 1, "stable": {"requests": 1, "errors": 0}}}', "no 'candidate'"),
        ('{"seconds": 1, "stable": {"requests": NaN, "errors": 0}, "candidate": {}}', "nan"),
        (json.dumps({"seconds": 1, "stable": _SAMPLE, "candidate": {"requests": -1, "errors": 0}}), "-1"),
        (json.dumps({"seconds": 1, "stable": _SAMPLE, "candidate": {"requests": 1, "errors": 2}}), "2 of 1"),
        (json.dumps({"seconds": "soon", "stable": _SAMPLE, "candidate": _SAMPLE}), "soon"),
        (json.dumps({"seconds": 1, "stable": 7, "candidate": _SAMPLE}), "7"),
        (json.dumps({"seconds": 10**400, "stable": _SAMPLE, "candidate": _SAMPLE}), "100000"),
        ('{"step": {"weight": "5", "bake_s": 1}}', '"5"'),
        ('{"step": {"weight": 5}}', '"weight": 5'),
        ('{"step": {"weight": 5, "bake_s": -1}}', "-1"),
        ('{"policy": {"alpha": 0.1}}', ""),
        ('{"coverage": {}}', "{}"),
        ('{"coverage": {"not_seen": "latency"}}', "latency"),
        ('{"coverage": {"not_seen": [1]}}', "[1]"),
    ],
)
@pytest.mark.parametrize("explain", [(), ("--explain",)])
def test_a_line_that_cannot_be_used_is_named(
    line: str, found: str, explain: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error names file, line, what was expected and what was found; verdicts before it stand; the code is 2."""
    assert main([recorded(tmp_path / "w.jsonl", _GOOD, line, _GOOD), *explain]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("w.jsonl, line 2: ")
    assert "Expected " in printed.err
    assert found in printed.err
    assert printed.out


@pytest.mark.parametrize("content", [b"", b"\n\n", b'{"policy": {}}\n', b"\xff\xfe"])
def test_a_file_without_windows_is_bad_input(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that holds no window, or is no text, gives code 2 and is named; so is one that is not there."""
    path = tmp_path / "w.jsonl"
    path.write_bytes(content)
    assert main([str(path)]) == 2
    assert main([str(tmp_path / "missing.jsonl")]) == 2
    told = capsys.readouterr().err
    assert "w.jsonl" in told
    assert "missing.jsonl" in told


def test_standard_input_that_is_no_text_is_bad_input() -> None:
    """Bytes that are no UTF-8 are told with their line, not as a traceback."""
    ran = subprocess.run([*_PROGRAM, "-"], input=b"\xff\n", capture_output=True)
    assert ran.returncode == 2
    assert ran.stderr.startswith(b"standard input, line 1: ")


# --- in words ---


def test_explain_says_each_verdict_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rules, step, time so far, weight, counts, status, reason, evidence against threshold, and a conclusion."""
    path = recorded(tmp_path / "w.jsonl", _STEP, _GOOD, {"no_data": "connection refused"}, _BAD, _BAD, _BAD)
    assert main([path, "--explain"]) == 1
    told = capsys.readouterr().out
    paragraphs = told.split("\n\n")
    assert "at most 1 % of canaries" in paragraphs[0]
    assert paragraphs[1] == "5 % of the traffic, to be watched for 20 s"
    assert paragraphs[2].startswith("Window 1, 10 s seen, weight 5 %: INCONCLUSIVE. Nothing against")
    assert (
        "candidate 0 errors in 50 requests (0 %), stable 4 errors in 950 requests (0.421 %)" in paragraphs[2]
    )
    assert "Evidence against the candidate: " in paragraphs[2]
    assert " of 100 (more errors than stable " in paragraphs[2]
    assert paragraphs[3].startswith("Window 2, 10 s seen, weight 5 %: INCONCLUSIVE. ")
    assert "connection refused" in paragraphs[3]
    assert "FAIL. The candidate fails" in paragraphs[6]
    assert paragraphs[-1].startswith(
        "Conclusion after 5 windows, 1 of them without data: FAIL. The candidate fails"
    )


def test_replays_are_told_from_users(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A window of replayed golden requests is read as such, and called so in words."""
    few = {"seconds": 10, "stable": {"requests": 20, "errors": 0}, "candidate": {"requests": 1, "errors": 0}}
    sample = {"requests": 60, "errors": 0}
    replayed = {"seconds": 10, "source": "replay", "stable": sample, "candidate": sample}
    path = recorded(tmp_path / "w.jsonl", _STEP, few, few, {"window": replayed})
    assert main([path, "--explain"]) == 0
    told = capsys.readouterr().out
    assert "Window 3 of replayed golden requests, 20 s seen, weight 5 %: PASS." in told
    assert "it rests on 62 requests in this step, of them 60 replayed golden requests" in told


def test_what_the_source_cannot_see_is_said_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A recording that says it leads to the very words of the pass, and to the verdict that holds them."""
    recording = recorded(tmp_path / "w.jsonl", {"coverage": {"not_seen": ["latency", "gRPC errors"]}}, _GOOD)
    assert main([recording]) == 0
    verdict = json.loads(capsys.readouterr().out)
    assert verdict["reason"].endswith("Its metrics source does not see: latency, gRPC errors.")
    assert verdict["not_seen"] == ["latency", "gRPC errors"]


def test_a_source_that_nobody_knows_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Requests of which nobody knows whose they are are not judged as users'."""
    assert main([recorded(tmp_path / "w.jsonl", {**_GOOD, "source": "bots"})]) == 2
    assert "bots" in capsys.readouterr().err


def test_a_single_window_without_a_step_is_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where no step was recorded none is told, and one window is one window."""
    main([recorded(tmp_path / "w.jsonl", _GOOD), "--explain"])
    told = capsys.readouterr().out
    assert "weight" not in told
    assert "None" not in told
    assert "Conclusion after 1 window: " in told


def test_help_tells_the_format_and_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    """--help shows each kind of line and what the exit codes mean."""
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    told = capsys.readouterr().out
    for words in (
        '{"policy"',
        '{"step"',
        '{"window"',
        '{"no_data"',
        '{"coverage"',
        "1 fail",
        "3 inconclusive",
        "--explain",
    ):
        assert words in told
