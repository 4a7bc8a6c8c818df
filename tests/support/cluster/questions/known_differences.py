"""Where the emulator answers otherwise than the real API server does, and why it stays so."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KnownDifference:
    """The answer to one question differs, at these places and at no other.

    :param places: `status`, `warnings`, or a path such as `body.metadata`; all below it may differ.
    :param real: what the real server answers, in a few words.
    :param emulated: what the emulator answers.
    """

    question: str
    places: tuple[str, ...]
    real: str
    emulated: str
    reason: str


_PATCHES = (
    "Slipway sends merge patches. Who sends another kind notices in the sandbox that it was not tried there."
)

KNOWN_DIFFERENCES: tuple[KnownDifference, ...] = (
    KnownDifference("json patch", ("status", "body"), "200, patched", "415", _PATCHES),
    KnownDifference(
        "strategic merge patch",
        ("body.message",),
        "415, names JSON patch, merge patch and apply",
        "415, names the merge patch",
        _PATCHES,
    ),
    KnownDifference("apply patch", ("status", "body"), "200, applied", "415", _PATCHES),
    KnownDifference(
        "patch as plain JSON",
        ("body.message",),
        "415, names JSON patch, merge patch and apply",
        "415, names the merge patch",
        _PATCHES,
    ),
    KnownDifference(
        "body is of another type",
        ("body.message",),
        "415, names JSON, YAML and protobuf",
        "415, names JSON",
        "Slipway and its clients send JSON.",
    ),
    KnownDifference(
        "wrong kind",
        ("status", "body"),
        "201, the kind is corrected",
        "400",
        "A wrong kind is a mistake of the sender, which shall be seen.",
    ),
    KnownDifference(
        "list limit",
        ("body",),
        "one object, and where to go on",
        "all objects",
        "The sandbox has few objects, and nothing of Slipway reads lists in parts.",
    ),
)


@dataclass(frozen=True)
class KnownStatusDifference:
    """At one place the status says something else in these situations, and in no other.

    :param place: a path such as `conditions.Ready`; all below it may differ.
    """

    mode: str
    place: str
    situations: tuple[str, ...]
    real: str
    emulated: str
    reason: str


@dataclass(frozen=True)
class KnownWordDifference:
    """The emulator uses these words (type, status, reason, severity), which were not seen on a real cluster."""

    mode: str
    words: tuple[str, str, str, str]
    reason: str


_STANDARD = (
    "the first pods start",
    "the first pods serve",
    "the first pods fail",
    "the canary starts",
    "the canary is ready",
    "the canary fails",
    "an update of stable fails",
)
_KNATIVE = (
    "the first revision starts",
    "the first revision serves",
    "the candidate starts",
    "the candidate has its share",
    "the candidate fails",
)
_NOT_UP = ("the first pods start", "the first pods fail")
_WITH_CANARY = ("the canary starts", "the canary is ready", "the canary fails")
_FAILS = ("the candidate fails",)
_UNREAD = "Nothing of Slipway reads it."
_REASON_UNREAD = "Slipway reads a condition's status, not its reason."
_STRICTER = (
    "Slipway takes False and Unknown alike. That a revision failed it reads in modelStatus, which is equal."
)

KNOWN_STATUS_DIFFERENCES: tuple[KnownStatusDifference, ...] = (
    KnownStatusDifference(
        "Standard", "clusterServingRuntimeName", _STANDARD, "kserve-tritonserver", "nothing", _UNREAD
    ),
    KnownStatusDifference(
        "Standard",
        "conditions.IngressReady[1]",
        _NOT_UP,
        "Predictor Deployment NotReady",
        "Predictor ingress not created",
        _REASON_UNREAD,
    ),
    KnownStatusDifference(
        "Standard",
        "conditions.Ready[1]",
        _NOT_UP,
        "Predictor Deployment NotReady",
        "MinimumReplicasUnavailable",
        _REASON_UNREAD,
    ),
    KnownStatusDifference(
        "Standard",
        "conditions.PredictorReady[1]",
        ("the first pods serve", *_WITH_CANARY, "an update of stable fails"),
        "NewReplicaSetAvailable or MinimumReplicasAvailable",
        "no reason",
        _REASON_UNREAD,
    ),
    KnownStatusDifference("Standard", "conditions.Stopped[2]", _STANDARD, "Info", "no severity", _UNREAD),
    KnownStatusDifference(
        "Standard", "conditions.CanaryPredictorReady[2]", _WITH_CANARY, "Info", "no severity", _UNREAD
    ),
    KnownStatusDifference(
        "Standard", "canaryModelStatus[0]", _WITH_CANARY, "an empty transitionStatus", "nothing", _UNREAD
    ),
    KnownStatusDifference(
        "Standard",
        "modelStatus.copies",
        (*_NOT_UP, "an update of stable fails"),
        "failedCopies 0",
        "nothing",
        _UNREAD,
    ),
    KnownStatusDifference(
        "Standard",
        "modelStatus.states.targetModelState",
        ("the first pods start",),
        "Pending",
        "Loading",
        _UNREAD,
    ),
    KnownStatusDifference(
        "Knative", "clusterServingRuntimeName", _KNATIVE, "kserve-tritonserver", "nothing", _UNREAD
    ),
    KnownStatusDifference(
        "Knative",
        "conditions.IngressReady[1]",
        ("the first revision starts",),
        "no reason",
        "Predictor ingress not created",
        _REASON_UNREAD,
    ),
    *(
        KnownStatusDifference(
            "Knative",
            f"conditions.{kind}[1]",
            ("the first revision starts",),
            "RevisionMissing",
            "no reason",
            _REASON_UNREAD,
        )
        for kind in ("PredictorReady", "PredictorRouteReady", "Ready")
    ),
    KnownStatusDifference("Knative", "conditions.Stopped[2]", _KNATIVE, "Info", "no severity", _UNREAD),
    KnownStatusDifference(
        "Knative",
        "modelStatus.copies",
        ("the first revision starts", "the candidate starts", "the candidate fails"),
        "failedCopies 0",
        "nothing",
        _UNREAD,
    ),
    KnownStatusDifference(
        "Knative",
        "modelStatus.states.targetModelState",
        ("the first revision starts", "the candidate starts"),
        "Pending",
        "Loading",
        _UNREAD,
    ),
    *(
        KnownStatusDifference(
            "Knative", f"conditions.{kind}", _FAILS, "Unknown, no reason", "False, RevisionFailed", _STRICTER
        )
        for kind in ("PredictorConfigurationReady", "PredictorReady", "Ready")
    ),
    KnownStatusDifference(
        "Knative", "conditions.LatestDeploymentReady", _FAILS, "Unknown", "False", _STRICTER
    ),
)

KNOWN_WORD_DIFFERENCES: tuple[KnownWordDifference, ...] = (
    KnownWordDifference(
        "Standard", ("IngressReady", "False", "Predictor ingress not created", ""), _REASON_UNREAD
    ),
    KnownWordDifference("Standard", ("PredictorReady", "True", "", ""), _REASON_UNREAD),
    KnownWordDifference("Standard", ("Stopped", "False", "", ""), _UNREAD),
    KnownWordDifference("Standard", ("CanaryPredictorReady", "False", "CanariesNotReady", ""), _UNREAD),
    KnownWordDifference("Standard", ("CanaryPredictorReady", "True", "AllCanariesReady", ""), _UNREAD),
    KnownWordDifference(
        "Knative", ("IngressReady", "Unknown", "Predictor ingress not created", ""), _REASON_UNREAD
    ),
    KnownWordDifference(
        "Knative",
        ("LatestDeploymentReady", "False", "PredictorConfigurationReady not ready", "Info"),
        _STRICTER,
    ),
    KnownWordDifference(
        "Knative", ("PredictorConfigurationReady", "False", "RevisionFailed", "Info"), _STRICTER
    ),
    KnownWordDifference("Knative", ("PredictorReady", "False", "RevisionFailed", ""), _STRICTER),
    KnownWordDifference("Knative", ("Ready", "False", "RevisionFailed", ""), _STRICTER),
    KnownWordDifference("Knative", ("PredictorRouteReady", "Unknown", "", "Info"), _REASON_UNREAD),
    KnownWordDifference("Knative", ("Stopped", "False", "", ""), _UNREAD),
)
