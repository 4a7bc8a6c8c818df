from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.chaos.evidence import violations
from tests.chaos.plan import Fault, Plan, draw
from tests.chaos.report import describe
from tests.chaos.world import World

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

LOST = Plan(
    seed=0,
    error_percent=100.0,
    faults=(Fault("lost_after_write", resource="inferenceservices", nth=1),),
    back_after_s=0.1,
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("chaos")) as live:
        yield live


@pytest.mark.parametrize("plan", [LOST, draw(116), draw(114)], ids=lambda plan: f"seed {plan.seed}")
def test_users_never_stay_on_a_bad_version_whatever_dies(world: World, plan: Plan) -> None:
    """Three runs of `make chaos`: a release that is lost with the users on a version that fails all requests, and
    two drawn ones.
    """
    seen, run = world.run(plan)
    broken = violations(seen)
    assert run.happened, "no fault took place"
    assert not broken, describe(seen, run, broken)
