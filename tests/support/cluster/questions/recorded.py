"""Answers in the form in which they are kept and compared: without what differs from run to run.

What is left out: times, uids, versions, generated names, field managers, and the status that a controller writes
when it comes to it (the conditions are compared elsewhere). A cause that the server names several times, once for
each pass of its validation, counts once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.cluster.questions.asking import Answer
from tests.support.cluster.questions.question import Question

RECORDINGS = Path(__file__).resolve().parents[3] / "recordings" / "kubernetes"
ANSWERS = RECORDINGS / "api-answers.jsonl"
_DROPPED = frozenset({"managedFields", "resourceVersion", "continue"})
_VOLATILE = (
    # A refused patch quotes the whole object, with all that differs from run to run.
    (re.compile(r'Invalid value: "\{.*\}": ', re.DOTALL), 'Invalid value: "{~}": '),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|\.\d+Z)"), "TIME"),
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "UID"),
    (re.compile(r"(?<=too old resource version: 1 )\(\d+\)"), "(N)"),
    (re.compile(r"(?<=ResourceVersion in record )\(\d+\)"), "(N)"),
    (re.compile(r"\be-[a-z0-9]{5}\b"), "e-~~~~~"),
)


def plain(value: Any) -> Any:
    """Return an answer's body without what differs from run to run."""
    if isinstance(value, Mapping):
        dropped = (
            _DROPPED if value.get("kind") == "Status" or "metadata" not in value else {*_DROPPED, "status"}
        )
        return {key: _plain_field(key, one) for key, one in sorted(value.items()) if key not in dropped}
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, str):
        for pattern, replacement in _VOLATILE:
            value = pattern.sub(replacement, value)
    return value


def _plain_field(key: str, value: Any) -> Any:
    found = plain(value)
    if key != "causes":
        return found
    return list({json.dumps(one, sort_keys=True): one for one in found}.values())


def line_of(question: Question, answer: Answer) -> dict[str, Any]:
    """Return a line of the recordings: the question's name, the request, and the answer."""
    return {
        "question": question.name,
        "request": question.request(),
        "status": answer.status,
        "warnings": list(answer.warnings),
        "body": plain(answer.body),
    }


def read_answers(path: Path = ANSWERS) -> dict[str, dict[str, Any]]:
    """Return the recorded lines by the names of their questions."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {line["question"]: line for line in lines}


def differences(recorded: Any, found: Any, path: str = "") -> list[str]:
    """Return what differs, one line for each place: `body.metadata.finalizers: recorded […], found nothing`."""
    if isinstance(recorded, Mapping) and isinstance(found, Mapping):
        keys = sorted({*recorded, *found})
        return [
            line
            for key in keys
            for line in differences(
                recorded.get(key, _NOTHING), found.get(key, _NOTHING), f"{path}.{key}" if path else key
            )
        ]
    if isinstance(recorded, list) and isinstance(found, list) and len(recorded) == len(found):
        return [
            line
            for index, (one, other) in enumerate(zip(recorded, found, strict=True))
            for line in differences(one, other, f"{path}[{index}]")
        ]
    if recorded == found and type(recorded) is type(found):
        return []
    return [f"{path}: recorded {_shown(recorded)}, found {_shown(found)}"]


_NOTHING = object()


def _shown(value: Any) -> str:
    return "nothing" if value is _NOTHING else json.dumps(value, ensure_ascii=False)
