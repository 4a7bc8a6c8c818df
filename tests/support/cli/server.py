"""A server with documents of the read model and runs of Airflow, for the command line's tests."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from slipway.cli.invocation import Clock
from slipway_core.doctor.report import DoctorReport
from slipway_core.fleet.parity import Parity
from slipway_core.read_model.documents import FreezeLine, ModelDocument
from slipway_core.read_model.landed import Landed, LandedProblem
from slipway_core.read_model.live import LiveDocument
from slipway_core.read_model.release_view import ReleaseView
from slipway_core.read_model.waiting import WaitingRun
from tests.support.airflow_api.fake_api import RUN, FakeApi
from tests.support.cli.documents import NOW

NOT_THERE = (404, {"detail": "Nothing is known of it.", "remedy": ""})


class FakeSlipway:
    """Answers reads from its fields; writes are kept in `api.calls` and answered as Airflow does.

    With `stale` it has no document that is as new as is asked for. `landed` is what of any model has landed.

    :param api: the server.
    """

    def __init__(self, api: FakeApi) -> None:
        self.api = api
        self.models: dict[str, ModelDocument | str] = {}
        self.fleets: dict[str, Parity] = {}
        self.examined: DoctorReport | None = None
        self.views: dict[tuple[str, int], ReleaseView] = {}
        self.live: dict[str, LiveDocument] = {}
        self.runs: dict[str, dict[str, Any]] = {}
        self.questions: list[dict[str, Any]] = []
        self.freezes: list[FreezeLine] = []
        self.problem = ""
        self.age_s: float | None = None
        self.waiting: list[WaitingRun] = []
        self.unusable: list[LandedProblem] = []
        self.landed = Landed(model="digits", is_whole=False)
        self.stale = False
        self.refusals: dict[str, tuple[int, Any]] = {}
        api.reply = self.reply

    @property
    def writes(self) -> list[tuple[str, str, Any]]:
        """What was asked for beyond reading."""
        return [call for call in self.api.calls if call[0] != "GET"]

    def reply(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """Answer one request."""
        bare = path.partition("?")[0]
        for part, answer in self.refusals.items():
            if part in bare:
                return answer
        if bare.startswith("/slipway/api/fleets/"):
            fleet = self.fleets.get(bare.removeprefix("/slipway/api/fleets/"))
            return (
                NOT_THERE if fleet is None else (200, {**fleet.model_dump(mode="json"), "agree": fleet.agree})
            )
        if bare == "/slipway/api/doctor":
            report = self.examined
            return (
                NOT_THERE
                if report is None
                else (200, {**report.model_dump(mode="json"), "exit_code": int(report.code), "age_s": 9})
            )
        if bare.startswith("/slipway/api/landed/"):
            return 200, self.landed.model_dump(mode="json")
        if self.stale and "most_age_s" in path:
            return 503, {"detail": "Storage is not answering; there is nothing current to show."}
        if bare.startswith("/slipway/api/models"):
            return self._read(bare.removeprefix("/slipway/api/models").strip("/").split("/"))
        return self._airflow(method, bare, body)

    def _read(self, parts: list[str]) -> tuple[int, Any]:
        if parts == [""]:
            listed = [_listed(name, one) for name, one in self.models.items()]
            freezes = [one.model_dump(mode="json") for one in self.freezes]
            return 200, {"models": listed, "freezes": freezes, **self._unrecorded()}
        found = self.models.get(parts[0])
        if not isinstance(found, ModelDocument):
            return NOT_THERE
        if len(parts) == 1:
            return 200, {"read_at": NOW.isoformat(), **self._unrecorded(), **found.model_dump(mode="json")}
        view = self.views.get((parts[0], int(parts[2])))
        if view is None:
            return NOT_THERE
        live = self.live.get(parts[0])
        return 200, {
            "release": view.model_dump(mode="json"),
            "live": None if live is None else live.model_dump(mode="json"),
        }

    def _unrecorded(self) -> dict[str, Any]:
        return {
            "problem": self.problem,
            "age_s": self.age_s,
            "waiting": [one.model_dump(mode="json") for one in self.waiting],
            "unusable": [one.model_dump(mode="json") for one in self.unusable],
        }

    def _airflow(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        parts = path.removeprefix("/api/v2/dags/").split("/")
        if method == "POST":
            run_id = body["dag_run_id"] or "named-by-airflow"
            self.runs[run_id] = {**RUN, "dag_id": parts[0], "dag_run_id": run_id, "state": "success"}
            return 200, self.runs[run_id]
        if path.endswith("/hitlDetails") and method == "GET":
            return 200, {"hitl_details": self.questions, "total_entries": len(self.questions)}
        if path.endswith("/hitlDetails"):
            return 200, {
                "responded_by": {"id": "1", "name": "admin"},
                "responded_at": "2026-03-01T12:00:00Z",
                "chosen_options": body["chosen_options"],
                "params_input": body["params_input"],
            }
        if len(parts) == 2:
            return 200, {"dag_runs": list(self.runs.values()), "total_entries": len(self.runs)}
        run = self.runs.get(parts[2])
        return (404, {"detail": "no such run"}) if run is None else (200, run)


class FakeClock(Clock):
    """A clock that goes on only when somebody waits; `then` are done one after the other, one at each wait."""

    def __init__(self) -> None:
        self.at: datetime = NOW
        self.then: list[Callable[[], object]] = []

    def now(self) -> datetime:
        """Return the moment that was reached by waiting."""
        return self.at

    def sleep(self, seconds: float) -> None:
        """Let the time pass at once."""
        self.at += timedelta(seconds=seconds)
        if self.then:
            self.then.pop(0)()


def _listed(name: str, one: ModelDocument | str) -> dict[str, Any]:
    return {"model": name, "reason": one} if isinstance(one, str) else one.model_dump(mode="json")
