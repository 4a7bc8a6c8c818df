"""The staging Triton: it is ready, and loads what it is asked to load."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import ClassVar

from airflow_provider_triton.client import calls
from slipway.doctor.examination import EXAMINATIONS, Examination
from slipway.doctor.installation import ANSWER_LIMIT_S, Installation
from slipway.hooks.triton import TritonHook
from slipway_core.doctor.line import Line
from slipway_core.errors import LoadRefusedError, ServerRefusedError


@EXAMINATIONS.register
class StagingExamination(Examination):
    """Asks it to load a model of a name that nobody has: explicit model control refuses the model, others the act."""

    name: ClassVar[str] = "staging"
    place: ClassVar[int] = 110
    why: ClassVar[str] = "validation and benchmark load the candidate there"

    def lines(self, installation: Installation) -> Iterator[Line]:
        """Yield a line for the server, and one for its model control."""
        hook = TritonHook(installation.triton_conn_id, timeout_s=ANSWER_LIMIT_S)
        server = hook.ask(calls.server_metadata())
        name = f"Triton {server.version}"
        if hook.is_ready():
            yield self.ok("staging Triton", f"{name} is ready")
        else:
            yield self.warning(
                "staging Triton",
                f"{name} reports that it is not ready",
                expected="--strict-readiness=false, or no model that fails to load",
                remedy="kubectl logs deploy/STAGING-TRITON | grep -i failed",
            )
        yield self._control(hook)

    def _control(self, hook: TritonHook) -> Line:
        what = "model control of the staging Triton"
        absent = f"slipway-doctor-{secrets.token_hex(4)}"
        remedy = "start it with --model-control-mode=explicit"
        try:
            hook.ask(calls.load(absent))
        except LoadRefusedError:
            return self.ok(what, "explicit: it refused to load a model that is not there")
        except ServerRefusedError as error:
            return self.failed(what, error.in_short(), expected="explicit", remedy=error.remedy or remedy)
        return self.unknown(what, f"it says that it has loaded {absent}, which nobody has", remedy=remedy)
