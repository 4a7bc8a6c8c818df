"""The emulator answers as the real API server did: each difference is known, and its reason is written down."""

from __future__ import annotations

import asyncio
import functools
import re
from typing import Any

import pytest
from aiohttp.test_utils import TestServer

from slipway_sandbox.cluster.admission.validation import admit
from slipway_sandbox.cluster.api.server import build_app
from slipway_sandbox.cluster.node.pod_logs import PodLogs
from slipway_sandbox.cluster.storage.store import ObjectStore
from slipway_sandbox.kserve.finalizer import Finalizers
from tests.support.cluster.questions.asking import ApiServer
from tests.support.cluster.questions.known_differences import KNOWN_DIFFERENCES
from tests.support.cluster.questions.question import NAMESPACE
from tests.support.cluster.questions.record import record
from tests.support.cluster.questions.recorded import RECORDINGS, differences, read_answers
from tests.support.cluster.questions.table import QUESTIONS

_TOKEN = "emulated"
_KNOWN = {known.question: known for known in KNOWN_DIFFERENCES}
_COMPARED = ("status", "warnings", "body")


@pytest.fixture(scope="module")
def recorded() -> dict[str, dict[str, Any]]:
    """The answers of the real API server."""
    return read_answers()


@pytest.fixture(scope="module")
def emulated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The answers of an emulated API server, with what KServe's controller does to every InferenceService."""

    path = tmp_path_factory.mktemp("answers") / "answers.jsonl"

    async def run() -> None:
        admission = functools.partial(admit, default_deployment_mode="Standard")
        store = ObjectStore(namespaces=(NAMESPACE, "default"), admission=admission)
        app = build_app(store, PodLogs(tmp_path_factory.mktemp("logs")), _TOKEN)
        controller = asyncio.create_task(Finalizers(store).run())
        try:
            async with TestServer(app) as server:
                address = ApiServer(str(server.make_url("")).rstrip("/"), _TOKEN)
                await asyncio.to_thread(record, address, path)
        finally:
            controller.cancel()

    asyncio.run(run())
    return read_answers(path)


def test_every_question_has_a_recorded_answer(recorded: dict[str, dict[str, Any]]) -> None:
    """The recordings hold these questions, in this order and with these requests, and no others."""
    asked = [(question.name, question.request()) for question in QUESTIONS]
    assert [(name, line["request"]) for name, line in recorded.items()] == asked


def test_every_known_difference_is_about_a_question() -> None:
    """No row is left of a question that is not asked any more, and none is there twice."""
    names = [question.name for question in QUESTIONS]
    assert set(_KNOWN) <= set(names)
    assert len(_KNOWN) == len(KNOWN_DIFFERENCES)


def test_the_recordings_are_small_and_name_no_machine() -> None:
    """What was recorded says nothing of where, and is no burden to the repository."""
    files = [path for path in RECORDINGS.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 500_000
    text = "".join(path.read_text(encoding="utf-8") for path in files)
    assert re.findall(r"/home/|/root/|/tmp/|localhost|127\.0\.0\.1|[\w.-]+@[\w-]+", text) == []


@pytest.mark.parametrize("question", [question.name for question in QUESTIONS])
def test_the_emulator_answers_as_the_real_server_did(
    recorded: dict[str, dict[str, Any]], emulated: dict[str, dict[str, Any]], question: str
) -> None:
    """Code, warnings, reason, message and every field are equal, but for what the list of differences names.

    A difference that the list names and that is gone fails too.
    """
    real, ours = ({key: one[question][key] for key in _COMPARED} for one in (recorded, emulated))
    found = differences(real, ours)
    places = _KNOWN[question].places if question in _KNOWN else ()
    assert [line for line in found if not line.startswith(places)] == []
    assert [place for place in places if not any(line.startswith(place) for line in found)] == []
