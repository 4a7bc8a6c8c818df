"""The command that shows what the daily examination of the installation found last."""

from __future__ import annotations

import json
from datetime import timedelta

from tests.support.cli.calls import Call
from tests.support.cli.documents import NOW
from tests.support.cli.server import FakeSlipway
from tests.support.web.examined import examined


def test_the_last_report_is_shown_with_its_age_and_its_exit_code(call: Call, server: FakeSlipway) -> None:
    """Nothing is examined here."""
    server.examined = examined(NOW - timedelta(hours=3))
    called = call("doctor", "--last")
    assert called.code == 1
    assert "FAILED   rights: leases.coordination.k8s.io in models: the account" in called.out
    assert "         mend:     kubectl -n models create role slipway-leases" in called.out
    assert called.out.splitlines()[-2:] == [
        "examined 3 h ago by the DAG installation_examination",
        "1 failed, 1 unknown, 1 warning, 1 skipped, 1 ok",
    ]


def test_one_examination_of_it_has_its_own_exit_code(call: Call, server: FakeSlipway) -> None:
    """As JSON, too."""
    server.examined = examined(NOW)
    assert call("doctor", "--last", "--only", "connections").code == 0
    assert call("doctor", "--last", "--only", "images").code == 2
    called = call("doctor", "--last", "--only", "images", "-o", "json")
    assert [line["status"] for line in json.loads(called.out)["lines"]] == ["unknown"]
    assert json.loads(called.out)["exit_code"] == 2


def test_an_old_report_says_so(call: Call, server: FakeSlipway) -> None:
    """Its DAG runs daily."""
    server.examined = examined(NOW - timedelta(days=3))
    assert "see whether its DAG is paused" in call("doctor", "--last").err


def test_an_installation_that_was_not_examined_is_an_error(call: Call, server: FakeSlipway) -> None:
    """Nothing is known, so nothing is ok."""
    called = call("doctor", "--last")
    assert called.code == 1
    assert "was not examined yet" in called.err
