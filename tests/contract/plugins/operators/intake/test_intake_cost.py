"""What a run of FindNewVersionsOperator costs: it follows what is new, is bounded, and ends when S3 does not answer."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.httpsession import URLLib3Session
from moto.s3.models import FakeKey, s3_backends

from slipway.hooks.s3_store import ModelStoreHook
from slipway_core.errors import TransientError
from slipway_sandbox.host.ports import LOOPBACK
from tests.support.release.intake_steps import (
    EVENT,
    SWEEP,
    Run,
    ends,
    found,
    land,
    notification,
    upload_again,
    was_started,
)
from tests.support.store.connections import aws_connection, make_bucket

MODELS, VERSIONS, EVENTS = 20, 10, 30


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts what goes over the wire to S3: by `LIST` and `GET`."""
    counted: Counter[str] = Counter()
    send = URLLib3Session.send

    def count(session: URLLib3Session, request: Any) -> Any:
        counted["LIST" if "list-type" in request.url else request.method] += 1
        return send(session, request)

    monkeypatch.setattr(URLLib3Session, "send", count)
    return counted


def fill(bucket: str, objects: Iterator[tuple[str, bytes]]) -> None:
    """Put objects into moto without a request for each."""
    (account,) = (name for name, by_region in s3_backends.items() if bucket in by_region["aws"].buckets)
    keys = s3_backends[account]["aws"].get_bucket(bucket).keys
    for name, body in objects:
        keys[name] = FakeKey(name, body, account_id=account, region_name="us-east-1", bucket_name=bucket)


def history(**ready: Any) -> Iterator[tuple[str, bytes]]:
    """Yield what years have left: versions in incoming/, each with the events of a release that was promoted."""
    for number, version in itertools.product(range(MODELS), range(1, VERSIONS + 1)):
        model = f"m{number:03}"
        described = json.dumps({"model": model, "version": version, **ready}).encode()
        yield f"incoming/{model}/{version}/ready.json", described
        yield f"incoming/{model}/{version}/model.onnx", b"model"
        kinds = ["release_started", *["window_judged"] * (EVENTS - 3), "promoted", "release_finished"]
        for seq, kind in enumerate(kinds, start=1):
            yield f"records/{model}/{version}/{seq:06}-{kind}.json", b"{}"


def test_sweep_costs_two_requests_for_a_model(store: ModelStoreHook, requests: Counter[str]) -> None:
    """Where nothing is new, no ready.json is read, and the number of versions and events makes no difference."""
    fill(store.bucket, history())
    requests.clear()
    assert found(store) == []
    assert requests == {"LIST": 1 + 2 * MODELS}


def test_sweep_reads_what_is_new(store: ModelStoreHook, requests: Counter[str]) -> None:
    """A new version costs its own ready.json and two listings more; the other models cost what they did."""
    fill(store.bucket, history())
    store.write_json("incoming/m007/11/ready.json", {"model": "m007", "version": 11})
    requests.clear()
    run = Run()
    assert run.execute(store)[0]["conf"] == {"model": "m007", "version": 11, "reason": SWEEP}
    assert requests == {"LIST": 1 + 2 * MODELS + 3, "GET": 1}


def test_event_costs_what_it_names(store: ModelStoreHook, requests: Counter[str]) -> None:
    """A run that an event started looks at the model that it names, and at no other."""
    fill(store.bucket, history())
    key = land(store, 11, model="m007")
    requests.clear()
    run = Run([notification(key, store.bucket)])
    assert run.execute(store)[0]["conf"] == {"model": "m007", "version": 11, "reason": EVENT}
    assert requests == {"LIST": 5, "GET": 1}


def test_what_waits_for_a_person_is_read_once(store: ModelStoreHook, requests: Counter[str]) -> None:
    """An unchanged ready.json that says by hand, or that is broken, is read by the first sweep and not by the next."""
    for version in range(1, 9):
        land(store, version, start="by_hand")
    store.write("incoming/digits/9/ready.json", b"broken")
    first = Run()
    requests.clear()
    assert found(store, first) == []
    assert requests["GET"] == 9
    requests.clear()
    second = Run(state=first.state)
    assert found(store, second) == []
    assert requests["GET"] == 0
    assert second.set_aside == first.set_aside != [], "it is named at each sweep"


def test_changed_ready_file_is_read_again(store: ModelStoreHook) -> None:
    """A version that waited for a person starts when a ready.json is uploaded that says automatic."""
    land(store, 2, start="by_hand")
    first = Run()
    assert found(store, first) == []
    upload_again(store, 2)
    assert found(store, Run(state=first.state)) == [("digits-2", SWEEP)]


def test_model_of_more_objects_than_a_page(store: ModelStoreHook, requests: Counter[str]) -> None:
    """A model whose versions have thousands of files costs some listings more, and its new version is found."""
    fill(store.bucket, ((f"incoming/digits/{n % 2 + 1}/weights.{n}", b"") for n in range(2100)))
    land(store, 1)
    land(store, 2)
    was_started(store, 1, ended=ends("refused"))
    requests.clear()
    run = Run()
    assert [each["conf"]["version"] for each in run.execute(store)] == [2]
    assert requests["LIST"] == 9
    was_started(store, 2, ended=ends("refused"))
    assert found(store) == []
    upload_again(store, 2, dataset_version="mended")
    assert found(store) == [("digits-2", SWEEP)]


def test_flood_of_versions_is_bounded(store: ModelStoreHook, requests: Counter[str]) -> None:
    """Of thousands of new versions of one model the newest are looked at, and that there are more is named."""
    fill(store.bucket, ((f"incoming/digits/{n}/ready.json", b"{}") for n in range(1, 3001)))
    land(store, 3001)
    requests.clear()
    run = Run()
    assert found(store, run) == [("digits-3001", SWEEP)]
    assert sum(requests.values()) < 250
    assert "digits: 3,001 new versions found; only the newest were read." in run.set_aside


def test_flood_of_models_starts_a_bounded_number(
    store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run starts no more releases than Airflow can map; the next run goes on with the others."""
    monkeypatch.setattr("slipway.operators.intake.find._STARTS_OF_A_RUN", 3)
    for number in range(5):
        land(store, 1, f"m{number}")
    first = Run()
    started = [each["trigger_run_id"] for each in first.execute(store)]
    assert len(started) == 3
    assert first.set_aside == ["2 more versions will be started by the next scan."]
    second = Run(under_way=started)
    assert [each["conf"]["model"] for each in second.execute(store)] == ["m3", "m4"]


@pytest.fixture
def stalled_store(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[ModelStoreHook, Callable[[], None]]]:
    """A store of its own process with a version in it, and what stops that process without ending it."""
    program = (
        "import logging, sys; from moto.server import ThreadedMotoServer;"
        f"server = ThreadedMotoServer('{LOOPBACK}', 0, verbose=False); server.start();"
        "print(server.get_host_and_port()[1], flush=True); sys.stdin.read()"
    )
    server = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert server.stdout is not None
        endpoint = f"http://{LOOPBACK}:{int(server.stdout.readline())}"
        monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", aws_connection(endpoint))
        store = ModelStoreHook(make_bucket(endpoint, "stalled"))
        land(store, 2)
        yield store, lambda: os.kill(server.pid, signal.SIGSTOP)
    finally:
        server.kill()
        server.communicate()


@pytest.mark.parametrize("is_told", [True, False], ids=["by its event", "by the sweep"])
def test_store_that_stops_answering_ends_the_task(
    stalled_store: tuple[ModelStoreHook, Callable[[], None]], monkeypatch: pytest.MonkeyPatch, is_told: bool
) -> None:
    """A store that holds its answers back does not hold the task: it fails in time, and Airflow tries it again."""
    monkeypatch.setattr("slipway.operators.intake.find._ANSWER_LIMIT_S", 1.0)
    store, stall = stalled_store
    assert found(store) == [("digits-2", SWEEP)]
    stall()
    run = Run([notification("incoming/digits/2/ready.json", store.bucket)] if is_told else [])
    began = time.monotonic()
    with pytest.raises(TransientError):
        run.execute(store, limit_s=2.0)
    assert time.monotonic() - began < 60


def test_sweep_goes_on_without_what_takes_too_long(
    store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that cannot be looked at in time is named; what was found until then starts."""
    land(store, 2)
    land(store, 1, model="slow")
    listing = ModelStoreHook.listing

    def hold_back(hook: ModelStoreHook, prefix: str, **options: Any) -> Any:
        if prefix.startswith("incoming/slow/"):
            released.wait(60)
        return listing(hook, prefix, **options)

    released = threading.Event()
    monkeypatch.setattr(ModelStoreHook, "listing", hold_back)
    run = Run()
    try:
        started = run.execute(store, limit_s=5.0)
    finally:
        released.set()
    assert [each["conf"]["model"] for each in started] == ["digits"]
    assert run.set_aside[0].startswith("slow: it was not scanned in time")
