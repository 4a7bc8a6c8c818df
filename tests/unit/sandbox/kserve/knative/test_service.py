"""What the emulated KServe and Knative show of an InferenceService's predictor, beside its status."""

from __future__ import annotations

from typing import Any

from slipway_core.rollout.dialects.knative.view import RevisionTemplate, knative_service, revision_templates
from slipway_sandbox.kserve.knative import machine
from slipway_sandbox.kserve.knative import service as shown

GOOD, BETTER = "s3://b/1/repository", "s3://b/2/repository"


def isvc(uri: str, percent: int | None = None, note: str = "") -> dict[str, Any]:
    """An InferenceService; `note` is an annotation of its predictor's own."""
    predictor: dict[str, Any] = {"model": {"storageUri": uri}}
    if percent is not None:
        predictor["canaryTrafficPercent"] = percent
    if note:
        predictor["annotations"] = {"slipway.dev/restored-at-generation": note}
    return {
        "metadata": {"name": "digits", "namespace": "models", "uid": "u", "annotations": {}},
        "spec": {"predictor": predictor},
    }


def ready(predictor: machine.Predictor, service: dict[str, Any]) -> machine.Predictor:
    """Take the spec, and have every revision come up."""
    accepted = machine.accept(predictor, service)
    for one in accepted.revisions:
        accepted = machine.with_revision(accepted, one.name, phase="ready")
    return machine.settle(accepted, service["spec"]["predictor"].get("canaryTrafficPercent"))


def test_a_revision_shows_what_it_serves_and_keeps_it() -> None:
    """KServe's own note of the storageUri, and the predictor's annotations, as in recordings of the real one."""
    first = ready(machine.Predictor(), isvc(GOOD))
    second = ready(first, isvc(BETTER, 10, note="7"))
    found = revision_templates(shown.revisions(second, isvc(BETTER)))
    assert found == {
        "digits-predictor-00001": RevisionTemplate(GOOD),
        "digits-predictor-00002": RevisionTemplate(BETTER, "7"),
    }


def test_the_knative_service_shows_what_kserve_has_acted_on() -> None:
    """Its template and its targets are those of the spec; it is settled when the newest revision has its share."""
    first = ready(machine.Predictor(), isvc(GOOD))
    booting = machine.settle(machine.accept(first, isvc(BETTER, 10)), 10)
    read = knative_service(shown.knative_service(booting, isvc(BETTER)), "digits", "u")
    assert read is not None
    assert (read.template.storage_uri, read.latest_percent, read.latest_ready) == (
        BETTER,
        10,
        "digits-predictor-00001",
    )
    assert read.is_routed
    assert not read.is_settled
    done = ready(booting, isvc(BETTER, 10))
    for is_routed in (True, False):
        read = knative_service(shown.knative_service(done, isvc(BETTER), is_routed=is_routed), "digits", "u")
        assert read is not None
        assert (read.is_routed, read.is_settled) == (is_routed, is_routed)


def test_an_annotation_that_is_kept_out_makes_no_revision_and_is_not_shown() -> None:
    """KServe's list holds for the predictor's own annotations, too."""
    kept_out = ("slipway.dev/restored-at-generation",)
    first = machine.accept(machine.Predictor(), isvc(GOOD), kept_out)
    second = machine.accept(first, isvc(GOOD, note="7"), kept_out)
    assert second == first
    assert revision_templates(shown.revisions(second, isvc(GOOD))) == {
        "digits-predictor-00001": RevisionTemplate(GOOD)
    }
