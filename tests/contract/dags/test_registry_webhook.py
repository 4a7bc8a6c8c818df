"""MLflow's webhooks on Airflow's own application and metadata database: a signed one starts a run, no other does."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
import uvicorn
from airflow import plugins_manager, settings
from airflow.api_fastapi.app import init_plugins
from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
from airflow.models import Connection
from airflow.models.dagbundle import DagBundleModel
from airflow.models.dagrun import DagRun
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState
from fastapi import FastAPI
from sqlalchemy import delete, select, update

import slipway_plugin
from slipway.workflows import REGISTRY_SYNC
from slipway_sandbox.host.ports import LOOPBACK, free_port
from slipway_sandbox.host.settings import PROJECT_ROOT
from slipway_sandbox.services.airflow import database_template
from tests.support.registry.mlflow_server import running_mlflow
from tests.support.registry.webhooks import DELIVERY, SECRET, body_of, signed
from tests.support.waiting import wait_until

BUNDLE = "slipway"
NAME = "Digits of the tests"
ROUTE = "/slipway/webhooks/mlflow"


@pytest.fixture(scope="module")
def releases_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two release files; one has the registered model."""
    folder = tmp_path_factory.mktemp("releases")
    spec = {"model": "digits", "source": {"format": "onnx"}}
    registry = {"registry": {"mlflow": {"registered_model": NAME}}}
    (folder / "digits.yaml").write_text(json.dumps(spec | registry), encoding="utf-8")
    (folder / "magika.yaml").write_text(json.dumps(spec | {"model": "magika"}), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def airflow_url(releases_dir: Path) -> Iterator[str]:
    """Airflow's plugins as its API server mounts them; the secret lies in the database, as people set it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLIPWAY_RELEASES_DIR", str(releases_dir))
        settings.engine.dispose()
        database = Path(str(settings.engine.url.database))
        database.parent.mkdir(parents=True, exist_ok=True)
        for leftover in database.parent.glob(f"{database.name}-*"):
            leftover.unlink()
        shutil.copyfile(database_template(PROJECT_ROOT / ".sandbox"), database)
        path = PROJECT_ROOT / "dags" / "registry_sync.py"
        bag = DagBag(path, bundle_path=path.parent, bundle_name=BUNDLE)
        assert not bag.import_errors
        assert bag.dags[REGISTRY_SYNC].timetable.expression == "*/5 * * * *"  # type: ignore[attr-defined]
        with create_session() as session:
            session.add(DagBundleModel(name=BUNDLE))
            session.flush()
            sync_bag_to_db(bag, BUNDLE, None, session=session)
            extra = json.dumps({"webhook_secret": SECRET})
            # The SDK's is what tasks are given; this one is a row of the database.
            session.add(Connection("mlflow_default", "http", host=LOOPBACK, extra=extra))  # noqa: AIR311
        app = FastAPI()
        plugins = (slipway_plugin.SlipwayPlugin.fastapi_apps, [])
        patch.setattr(plugins_manager, "get_fastapi_plugins", lambda: plugins)
        init_plugins(app)
        port = free_port()
        server = uvicorn.Server(uvicorn.Config(app, host=LOOPBACK, port=port, log_level="warning"))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        wait_until(lambda: server.started, "the application listens")
        yield f"http://{LOOPBACK}:{port}"
        server.should_exit = True
        thread.join(30)


@pytest.fixture(autouse=True)
def no_runs(airflow_url: str) -> None:
    """No run is there yet."""
    with create_session() as session:
        session.execute(delete(DagRun))


def runs() -> list[tuple[str, object]]:
    """Return the runs that there are, each with its conf."""
    with create_session() as session:
        return [(run.run_id, run.conf) for run in session.scalars(select(DagRun).order_by(DagRun.id))]


def send(url: str, body: bytes, headers: dict[str, str]) -> int:
    """Send a request; return the status."""
    try:
        with urlopen(Request(url + ROUTE, data=body, headers=headers, method="POST"), timeout=60) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code


def test_a_signed_webhook_starts_a_sync_of_the_models_that_it_is_about(airflow_url: str) -> None:
    """Once: the same delivery again, and another one while that run waits, start nothing more."""
    body = body_of(NAME)
    assert send(airflow_url, body, signed(body)) == 202
    run = (f"mlflow__digits__{DELIVERY}", {"model": "digits"})
    assert runs() == [run]
    assert send(airflow_url, body, signed(body, delivery="another-delivery")) == 202
    assert runs() == [run]
    with create_session() as session:
        session.execute(update(DagRun).values(state=DagRunState.SUCCESS))
    assert send(airflow_url, body, signed(body)) == 202
    assert runs() == [run]
    assert send(airflow_url, body, signed(body, delivery="another-delivery")) == 202
    assert len(runs()) == 2


def test_what_is_not_proved_starts_nothing(airflow_url: str) -> None:
    """Not signed, signed by somebody else, signed long ago, or about what is no release file's."""
    body = body_of(NAME)
    assert send(airflow_url, body, {}) == 401
    assert send(airflow_url, body, signed(body, secret="another secret of the tests")) == 401
    assert send(airflow_url, body, signed(body, at_s=time.time() - 3600)) == 401
    large = b"x" * 300_000
    assert send(airflow_url, large, signed(large)) == 413
    other = body_of("somebody else's")
    assert send(airflow_url, other, signed(other)) == 202
    assert runs() == []


def test_a_real_delivery_starts_a_sync(airflow_url: str, tmp_path: Path) -> None:
    """MLflow itself signs, and sends, when an alias is set; aliases that Slipway sets are not answered by a sync."""
    with running_mlflow(tmp_path) as mlflow:
        mlflow.webhook(f"{airflow_url}{ROUTE}", SECRET)
        number = mlflow.register(NAME, {"model.onnx": b"a model"})
        mlflow.promote(NAME, number, "live")
        mlflow.promote(NAME, number)
        wait_until(runs, "a run is there")
    ((run_id, conf),) = runs()
    assert run_id.startswith("mlflow__digits__")
    assert conf == {"model": "digits"}
