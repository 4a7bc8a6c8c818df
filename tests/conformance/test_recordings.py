"""The recordings that the emulator is held against are what the real API server says today."""

from __future__ import annotations

import ssl

from tests.conformance.conftest import RUNS
from tests.support.cluster.questions.asking import ApiServer
from tests.support.cluster.questions.question import NAMESPACE
from tests.support.cluster.questions.record import record
from tests.support.cluster.questions.recorded import differences, read_answers
from tests.support.conformance.control_plane import ADMIN
from tests.support.conformance.real_cluster import RealCluster

# Copied over tests/recordings/kubernetes/api-answers.jsonl it brings the recordings up to date.
ANSWERS_NOW = RUNS / "api-answers.jsonl"


def test_the_real_server_answers_as_it_was_recorded(cluster: RealCluster) -> None:
    """Every question has the answer that is kept; what the server says today stays in the folder of the lane's runs."""
    cluster.new_namespace(name=NAMESPACE)
    context = ssl.create_default_context(cafile=str(cluster.plane.certificates.authority))
    RUNS.mkdir(parents=True, exist_ok=True)
    record(ApiServer(cluster.plane.url, cluster.plane.tokens[ADMIN], context), ANSWERS_NOW)
    assert differences(read_answers(), read_answers(ANSWERS_NOW)) == []
