"""A notification channel that another package adds: named by a connection's extra, and sent a message by."""

from __future__ import annotations

import json
import re
from pathlib import Path

from slipway.notifiers.channel import CHANNELS
from tests.support.notifications.receivers import http_receiver
from tests.support.other_package import ROOT, install, run_installed

MODULE = '''
import urllib.request
from typing import ClassVar

from slipway.notifiers.channel import CHANNELS, Channel


@CHANNELS.register
class PlainChannel(Channel):
    """Posts the title."""

    name: ClassVar[str] = "plain"

    def __init__(self, url):
        self._url = url

    @classmethod
    def of(cls, connection):
        return cls(connection.host)

    def send(self, message):
        urllib.request.urlopen(self._url, data=message.title.encode(), timeout=10).close()
'''
PROGRAM = """
    from slipway.notifiers.notifier import SlipwayNotifier
    from slipway_core.errors import SlipwayError
    try:
        SlipwayNotifier(to="told", title="a release ended", text="now").notify({})
        print("sent")
    except SlipwayError as error:
        print(type(error).__name__, error)
"""


def _send(folder: Path, **fields: object) -> str:
    done = run_installed(folder, PROGRAM, AIRFLOW_CONN_TOLD=json.dumps({"conn_type": "generic", **fields}))
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()[-1]


def test_a_channel_of_another_package_sends(tmp_path: Path) -> None:
    """One class and one entry point; the connection names it in its extra."""
    points = {"slipway.notification_channels": {"plain": "plain_channel:PlainChannel"}}
    install(tmp_path, "plain-channel", MODULE, points)
    with http_receiver() as receiver:
        assert _send(tmp_path, host=receiver.address, extra={"channel": "plain"}) == "sent"
    (request,) = receiver.received
    assert request.body == b"a release ended"


def test_an_unknown_channel_is_an_error_that_names_the_known_ones(tmp_path: Path) -> None:
    """Nothing is sent by another channel instead, whatever the password looks like."""
    told = _send(tmp_path, password="json://127.0.0.1:1", extra={"channel": "plain"})
    assert told.startswith("UnknownKindError there is no notification channel 'plain'")
    assert "one of apprise, aws, webhook" in told


def test_a_channel_of_slipway_can_be_named_as_well(tmp_path: Path) -> None:
    """Then its password need not look like one of the channel's."""
    with http_receiver() as receiver:
        address = receiver.address.replace("http://", "json://")
        assert _send(tmp_path, password=address, extra={"channel": "apprise"}) == "sent"
    assert len(receiver.received) == 1


def test_each_channel_has_its_row_in_the_documents() -> None:
    """docs/notifications.md has a table of the channels, with a row for each and none beside them."""
    text = (ROOT / "docs" / "notifications.md").read_text(encoding="utf-8")
    table = text[text.index("| channel | password |") :].split("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(CHANNELS.built_in())
