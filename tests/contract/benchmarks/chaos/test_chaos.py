from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.chaos.evidence import violations
from benchmarks.chaos.fault_lab import FaultLab
from benchmarks.chaos.plan import RECORDS, SERVICES, Fault, Plan, draw
from benchmarks.chaos.report import describe
from tests.support.examples import nightly

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

LOST_AT_THE_FIRST_PERCENT = Fault("lost_after_write", resource=SERVICES, nth=1)
LOST = Plan(seed=0, error_percent=100.0, faults=(LOST_AT_THE_FIRST_PERCENT,), back_after_s=0.1)
LOST_WITH_ITS_GUARD = Plan(
    seed=1,
    error_percent=100.0,
    faults=(LOST_AT_THE_FIRST_PERCENT, Fault("guard_killed", at_s=4.0, seconds=1.0)),
    back_after_s=0.1,
    dialect="Standard",
)
# The judge has failed the candidate and its users are gone; the record does not tell of it yet.
KILLED_BEFORE_IT_IS_TOLD = Plan(
    seed=2,
    error_percent=60.0,
    faults=(Fault("killed_at_record", resource=RECORDS, nth=8, seconds=0.05),),
    back_after_s=0.1,
    dialect="Standard",
)


@pytest.fixture(scope="module")
def fault_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultLab]:
    with FaultLab(tmp_path_factory.mktemp("chaos")) as live:
        yield live


@pytest.mark.parametrize(
    "plan",
    [nightly(LOST), LOST_WITH_ITS_GUARD, KILLED_BEFORE_IT_IS_TOLD, nightly(draw(207))],
    ids=lambda plan: f"seed {plan.seed}",
)
def test_users_never_stay_on_a_bad_version_whatever_dies(fault_lab: FaultLab, plan: Plan) -> None:
    """Runs of `make chaos`: a release that is lost with users on a version that fails all requests, one that is
    lost together with its guard, one that forgets the judge's verdict, and a drawn one, of a good version.
    """
    seen, run = fault_lab.run(plan)
    broken = violations(seen)
    assert run.happened, "no fault took place"
    assert not broken, describe(seen, run, broken)
