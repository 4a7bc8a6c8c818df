"""What becomes of a conversion: evidence, refusals, what is left out, what is tried again. The pod is emulated: a
function that writes what a converter writes to a real S3 protocol.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from kubernetes.client import (
    V1ContainerState,
    V1ContainerStateTerminated,
    V1ContainerStatus,
    V1Pod,
    V1PodStatus,
)

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.convert import ChooseVariantOperator
from slipway_core.errors import (
    InputMissingError,
    ModelInvalidError,
    ParityRefusedError,
    SlipwayError,
    StoreUnavailableError,
    TimedOutError,
    TransientError,
    UserError,
)
from slipway_core.spec.release_file import parse_release_spec
from tests.support.release.conversion import (
    CONTEXT,
    GOOD,
    OFF,
    RESULT,
    Pods,
    converting,
    evidence,
    one_conversion,
    outcomes,
    release_run_of,
)

# --- what is left of a conversion that failed ---


def test_a_refused_conversion_leaves_its_parity_table(store: ModelStoreHook, bucket: str, pods: Pods) -> None:
    """The evidence is written before the refusal is raised, with the worst rows; without variants too."""
    error = ParityRefusedError("The converted model answers otherwise").to_dict()
    pods(lambda _: {**RESULT, "outcome": "refused", "error": error, "parity": [OFF]})
    release_run = one_conversion(bucket)
    with pytest.raises(AirflowFailException, match="answers otherwise"):
        converting(release_run, "").execute(CONTEXT)
    assert evidence(store, "convert.json")["parity"][0]["worst"] == OFF["worst"]
    assert outcomes(store, release_run) == {"convert": "refused"}


def test_the_choice_shows_the_worst_figures_of_each_variant(
    store: ModelStoreHook, bucket: str, pods: Pods
) -> None:
    """`variants.json` has the parity of those that are left and of those that are not, beside the reason."""
    error = ParityRefusedError("row 1 differs").to_dict()
    refused = {**RESULT, "error": error, "parity": [OFF]}
    pods(lambda operator: RESULT if operator.variant == "whole" else refused)
    release_run = release_run_of(bucket)
    for name in ("half", "whole"):
        assert converting(release_run, name).execute(CONTEXT) is None  # type: ignore[func-returns-value]
    chosen = ChooseVariantOperator(task_id="choose", release=release_run.model_dump_json()).run(CONTEXT)
    assert chosen == ["whole"]
    half, whole = evidence(store, "variants.json")["candidates"]
    assert (half["refused"], half["parity"][0]["mismatched_rows"]) == ("row 1 differs.", 1)
    assert (whole["refused"], whole["parity"][0]["max_abs_diff"]) == (None, 0.001)
    assert evidence(store, "convert-half.json")["parity"] == [OFF]
    assert outcomes(store, release_run) == {
        "convert-half": "left_out",
        "convert-whole": "passed",
        "choose": "passed",
    }


def test_a_choice_that_refuses_shows_what_there_was(store: ModelStoreHook, bucket: str, pods: Pods) -> None:
    """With no variant left, `variants.json` tells all the same what each was and why it is out."""
    error = ParityRefusedError("row 1 differs").to_dict()
    pods(lambda _: {**RESULT, "error": error, "parity": [OFF]})
    release_run = release_run_of(bucket)
    for name in ("half", "whole"):
        converting(release_run, name).execute(CONTEXT)
    with pytest.raises(ParityRefusedError, match="no variant of the conversion is left"):
        ChooseVariantOperator(task_id="choose", release=release_run.model_dump_json()).run(CONTEXT)
    told = evidence(store, "variants.json")
    assert told["names"] == []
    assert [one["parity"][0]["mismatched_rows"] for one in told["candidates"]] == [1, 1]
    assert outcomes(store, release_run)["choose"] == "refused"


def test_nothing_is_chosen_of_a_conversion_that_did_not_run(store: ModelStoreHook, bucket: str) -> None:
    """A conversion that somebody marked as skipped has left no evidence; what an older one left is not published."""
    with pytest.raises(InputMissingError, match="the conversion has no result"):
        ChooseVariantOperator(task_id="choose", release=one_conversion(bucket).model_dump_json()).run(CONTEXT)


@pytest.mark.parametrize(
    ("parity", "words"),
    [
        ([OFF], "1 of 2 rows differ"),
        ([], "`y`: not compared"),
        (None, "no readable `parity`"),
        ([{**GOOD, "output": "another"}], "`y`: not compared"),
    ],
)
def test_a_pod_that_says_pass_is_not_believed(
    store: ModelStoreHook, bucket: str, pods: Pods, parity: object, words: str
) -> None:
    """The table decides: one that fails, is empty, unreadable or lacks an output refuses the version."""
    pods(lambda _: {**RESULT, "parity": parity})
    release_run = one_conversion(bucket)
    with pytest.raises(AirflowFailException, match=words):
        converting(release_run, "").execute(CONTEXT)
    assert words in str(SlipwayError.from_dict(evidence(store, "convert.json")["error"]))


def test_what_is_passed_through_has_no_table(bucket: str, store: ModelStoreHook, pods: Pods) -> None:
    """A model of the Python backend is not converted, so there is nothing to compare."""
    pods(lambda _: {"error": None, "parity": [], "outcome": "pass"})
    spec = parse_release_spec(
        "model: ranker\nsource: {format: python}\nconversion: {target: python}\n", "r.yaml"
    )
    release_run = release_run_of(bucket).model_copy(update={"spec": spec})
    assert converting(release_run, "").execute(CONTEXT) is None  # type: ignore[func-returns-value]
    assert outcomes(store, release_run) == {"convert": "passed"}


# --- what is left out, and what is tried again ---


@pytest.mark.parametrize("variant", ["half", ""])
@pytest.mark.parametrize(
    "error",
    [
        ParityRefusedError("row 17 differs"),
        ModelInvalidError("no int8 of this"),
        UserError("The tool 'optimise' wanted more memory than it may have"),
        TimedOutError("The tool 'optimise' did not finish in time"),
    ],
)
def test_one_of_several_that_cannot_be_released_is_left_out(
    store: ModelStoreHook, bucket: str, pods: Pods, error: SlipwayError, variant: str
) -> None:
    """The only conversion fails its task at once, a hang included; one of several is left out, and nothing fails."""
    pods(lambda _: {**RESULT, "error": error.to_dict(), "parity": []})
    release_run = release_run_of(bucket) if variant else one_conversion(bucket)
    operator = converting(release_run, variant)
    if variant:
        assert operator.execute(CONTEXT) is None  # type: ignore[func-returns-value]
        assert outcomes(store, release_run) == {"convert-half": "left_out"}
        return
    with pytest.raises(AirflowFailException, match=str(error)):
        operator.execute(CONTEXT)
    outcome = "refused" if isinstance(error, ParityRefusedError) else "failed"
    assert outcomes(store, release_run) == {"convert": outcome}


def test_an_unreachable_store_leaves_nothing_out(bucket: str, pods: Pods) -> None:
    """A variant whose pod did not reach the hub or the store is tried again: the variant is not at fault."""
    pods(lambda _: {**RESULT, "error": StoreUnavailableError("S3 does not answer").to_dict()})
    with pytest.raises(StoreUnavailableError):
        converting(release_run_of(bucket)).execute(CONTEXT)


def pod_that_ended(reason: str | None, container_reason: str | None, message: str = "") -> Any:
    terminated = V1ContainerStateTerminated(exit_code=137, reason=container_reason)
    container = V1ContainerStatus(
        name="base",
        image="slipway/tool:0.1.0",
        image_id="",
        ready=False,
        restart_count=0,
        state=V1ContainerState(terminated=terminated),
    )
    return V1Pod(status=V1PodStatus(reason=reason, message=message, container_statuses=[container]))


OVER_ITS_DISK = 'Usage of EmptyDir volume "scratch" exceeds the limit "100Gi". '


@pytest.mark.parametrize(
    ("pod", "words"),
    [
        (pod_that_ended(None, "OOMKilled"), "it used too much memory.*resources.memory: 16Gi"),
        (pod_that_ended("DeadlineExceeded", "Error"), "did not end in time.*9060 s"),
        (pod_that_ended("Evicted", None, OVER_ITS_DISK), "it used too much disk.*exceeds the limit"),
    ],
)
def test_a_pod_that_meets_its_limits_is_left_out_with_the_reason(
    store: ModelStoreHook, bucket: str, pods: Pods, pod: Any, words: str
) -> None:
    """Killed for memory, over its disk or past its deadline it left no result; the choice is told why it is out."""

    pods(lambda operator: None if operator.variant == "half" else RESULT, ended=pod)
    release_run = release_run_of(bucket)
    for name in ("half", "whole"):
        converting(release_run, name).execute(CONTEXT)
    release = release_run.model_dump_json()
    assert ChooseVariantOperator(task_id="choose", release=release).run(CONTEXT) == ["whole"]
    (half, _) = evidence(store, "variants.json")["candidates"]
    assert re.search(words, half["refused"])


def test_a_pod_that_ended_for_no_reason_of_its_own_is_tried_again(bucket: str, pods: Pods) -> None:
    """Evicted, or never started: that may pass."""
    pods(lambda _: None, ended=pod_that_ended("Evicted", None))
    with pytest.raises(TransientError, match=r"without a result.*Evicted"):
        converting(release_run_of(bucket)).execute(CONTEXT)
