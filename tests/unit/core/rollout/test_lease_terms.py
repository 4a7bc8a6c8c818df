"""Whether a lease outlasts a dead triggerer: the numbers, the words, and what this project ships."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from slipway_core.errors import SpecError
from slipway_core.lease_limits import LONGEST_LEASE_S
from slipway_core.rollout.holder_identity import STAGES, HolderIdentity
from slipway_core.rollout.lease_terms import needed_lease_s, require_lease_outlasts_take_over
from slipway_core.spec.release_file import load_release_spec
from slipway_sandbox.host.settings import PROJECT_ROOT, SandboxSettings
from slipway_sandbox.services.airflow import configuration

AIRFLOWS_DEFAULT_S, HEARTBEAT_S = 30.0, 5.0
MARGIN_S = 15.0


def test_defaults_fit_each_other() -> None:
    """The release file's default lease outlasts the take-over with Airflow's default threshold."""
    require_lease_outlasts_take_over(60, AIRFLOWS_DEFAULT_S, HEARTBEAT_S)


@pytest.mark.parametrize(
    ("lease_s", "threshold_s", "remedies"),
    [
        (60, 60, ("`rollout.lease_s` to 85 or more", "threshold` to 35 or less")),
        (15, 30, ("`rollout.lease_s` to 55 or more",)),
        (3600, 5000, ("threshold` to 3575 or less",)),
    ],
)
def test_a_lease_that_is_too_short_is_refused_with_a_remedy_that_helps(
    lease_s: int, threshold_s: float, remedies: tuple[str, ...]
) -> None:
    """A dead triggerer must not cost a healthy canary: the message says both ways out, once, where there are two."""
    with pytest.raises(SpecError) as refused:
        require_lease_outlasts_take_over(lease_s, threshold_s, HEARTBEAT_S)
    text = str(refused.value)
    assert all(remedy in text for remedy in remedies)
    assert (text.count("Remedy"), text.count("Expected")) == (1, 1)


@given(st.integers(15, LONGEST_LEASE_S), st.floats(10, 4000))
def test_what_a_remedy_says_is_admitted(lease_s: int, threshold_s: float) -> None:
    """Whoever does as the message says is not refused again."""
    try:
        require_lease_outlasts_take_over(lease_s, threshold_s, HEARTBEAT_S)
    except SpecError as error:
        for option in str(error.remedy).split(", or "):
            lease = re.search(r"lease_s` to (\d+)", option)
            threshold = re.search(r"threshold` to (\d+)", option)
            require_lease_outlasts_take_over(
                int(lease[1]) if lease else lease_s,
                int(threshold[1]) if threshold else threshold_s,
                HEARTBEAT_S,
            )


def test_a_threshold_below_two_heartbeats_is_refused() -> None:
    """A triggerer that lives would be taken for dead, and two would drive one canary."""
    with pytest.raises(SpecError, match="10 s or more"):
        require_lease_outlasts_take_over(60, 8.0, HEARTBEAT_S)


def shipped_releases() -> list[Path]:
    """The release files of this project."""
    return sorted((PROJECT_ROOT / "include" / "releases").glob("*.yaml"))


@pytest.mark.parametrize("path", shipped_releases(), ids=lambda path: path.stem)
def test_sandbox_and_compose_leave_a_margin(path: Path, tmp_path: Path) -> None:
    """With the settings that ship, each shipped release outlasts the take-over by some seconds."""
    settings = configuration(SandboxSettings.prepare(tmp_path, {}), tmp_path)["triggerer"]
    compose = yaml.safe_load((PROJECT_ROOT / "docker-compose.yaml").read_text(encoding="utf-8"))
    variables = compose["x-airflow"]["environment"]
    thresholds = {
        float(settings["triggerer_health_check_threshold"]): float(settings["job_heartbeat_sec"]),
        float(variables["AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD"]): float(
            variables["AIRFLOW__TRIGGERER__JOB_HEARTBEAT_SEC"]
        ),
    }
    lease_s = load_release_spec(path).rollout.lease_s
    for threshold_s, heartbeat_s in thresholds.items():
        require_lease_outlasts_take_over(lease_s, threshold_s, heartbeat_s)
        assert lease_s >= needed_lease_s(lease_s, threshold_s) + MARGIN_S


# --- who holds it ---

HOLDERS = st.builds(HolderIdentity, st.text(max_size=30), st.sampled_from(STAGES), st.integers(1, 999_999))


@given(HOLDERS)
def test_a_holder_is_read_back_as_it_was_written(holder: HolderIdentity) -> None:
    """Run, stage and try survive the Lease, whatever the run is called."""
    assert HolderIdentity.parse(str(holder)) == holder


@given(HOLDERS, HOLDERS)
def test_of_two_holders_of_a_release_one_comes_later(one: HolderIdentity, other: HolderIdentity) -> None:
    """Only the same holder may take over in both directions, and no other release ever."""
    both = one.may_take_over(other) and other.may_take_over(one)
    assert both == (one == other)
    same_release = one.release_id == other.release_id
    assert (one.may_take_over(other) or other.may_take_over(one)) == same_release


def test_a_later_stage_and_a_later_try_take_over() -> None:
    """The canary's second try comes after its first, and the promotion after both."""
    first, second = HolderIdentity("r", "canary", 1), HolderIdentity("r", "canary", 2)
    promotion = HolderIdentity("r", "promotion", 1)
    assert second.may_take_over(first)
    assert not first.may_take_over(second)
    assert promotion.may_take_over(second)
    assert not second.may_take_over(promotion)
