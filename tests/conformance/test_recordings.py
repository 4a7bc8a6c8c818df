"""The recordings that the emulator is held against are what the real API answers; `--record` writes them anew."""

from __future__ import annotations

import shutil
import ssl
from pathlib import Path

import pytest

from tests.support.cluster.questions.asking import ApiServer
from tests.support.cluster.questions.question import NAMESPACE
from tests.support.cluster.questions.record import record
from tests.support.cluster.questions.recorded import ANSWERS, differences, read_answers
from tests.support.conformance.control_plane import ADMIN
from tests.support.conformance.real_cluster import RealCluster


def test_the_real_api_answers_as_recorded(
    cluster: RealCluster, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Each question's code, warnings and body are those of `tests/recordings/kubernetes/api-answers.jsonl`."""
    cluster.new_namespace(name=NAMESPACE)
    plane, found = cluster.plane, tmp_path / "answers.jsonl"
    context = ssl.create_default_context(cafile=str(plane.certificates.authority))
    record(ApiServer(plane.url, plane.tokens[ADMIN], context), found)
    if request.config.getoption("--record"):
        shutil.copyfile(found, ANSWERS)
    assert differences(read_answers(ANSWERS), read_answers(found)) == []
