"""What can be seen of an InferenceService, in whichever dialect, as one value with the same questions.

`Observed` has what every dialect has. What only one dialect has lies in its own type, a subclass in the dialect's
folder (`dialects/*/observed.py`), which answers the questions whose answers differ. The dialect that an object speaks
makes the observation (`dialects/registry.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from slipway_core.rollout.fields import (
    ANNOTATION_PREFIX,
    CANDIDATE_URI,
    NO_TRANSFORMER,
    PREVIEW_GENERATION,
    RELEASE,
    REPLACED_REVISION,
    ROLLED_BACK_URI,
    STABLE_REVISION,
    STABLE_URI,
    STABLE_VERSION,
    START_GENERATION,
    TRANSFORMER,
    VERSION,
)
from slipway_core.rollout.pods.starting import StartingPod

__all__ = [
    "ANNOTATION_PREFIX",
    "CANDIDATE_URI",
    "RELEASE",
    "REPLACED_REVISION",
    "ROLLED_BACK_URI",
    "STABLE_REVISION",
    "STABLE_URI",
    "STABLE_VERSION",
    "VERSION",
    "Observed",
]


@dataclass(frozen=True)
class Observed(ABC):
    """One reading of an InferenceService. Revision names are "" if there is none; `traffic` is percent by
    revision.

    `dialect` is the name of the dialect that it speaks, KServe's deployment mode. `storage_uri` is what the spec names
    last: the candidate while there is one. `canary_percent` is the candidate's weight in the spec, 0 in a preview and
    once a rollback was decided, None without a canary. `latest_created` is the newest revision, `latest_ready` the
    newest that answers, `latest_rolledout` the one that is live. `annotations` are the notes, wherever the dialect
    keeps them. `traffic_current` tells whether the router is known to do what `traffic` says. `urls` are the addresses,
    by revision, that lead to that revision alone, whatever its weight. `obstacles` are the reasons why no canary can
    work here, `transformer` is the transformer's digest. `predictor` is the spec's, as it is. `unreadable` names what
    of the canary in the spec is of no known form: it reads as if the candidate had everyone, which a rollback can go on
    from and nothing else. `pods` are the InferenceService's; None: they were not read, or cannot be.
    """

    dialect: ClassVar[str]

    name: str
    namespace: str
    resource_version: str
    generation: int
    storage_uri: str
    canary_percent: int | None
    latest_created: str
    latest_ready: str
    latest_rolledout: str
    traffic: Mapping[str, int] = field(default_factory=dict)
    traffic_current: bool = True
    urls: Mapping[str, str] = field(default_factory=dict)
    ready: bool = False
    failure: str | None = None
    url: str | None = None
    uid: str = ""
    predictor: Mapping[str, Any] = field(default_factory=dict)
    deleting: bool = False
    annotations: Mapping[str, str] = field(default_factory=dict)
    obstacles: tuple[str, ...] = ()
    transformer: str = NO_TRANSFORMER
    unreadable: tuple[str, ...] = ()
    pods: tuple[StartingPod, ...] | None = None

    # --- what each dialect answers ---

    @abstractmethod
    def revision_of(self, storage_uri: str) -> str:
        """Return the revision that serves `storage_uri`, or did before it was rolled back; "" if none is known."""

    @abstractmethod
    def is_shielded_from(self, storage_uri: str) -> bool:
        """Return whether no user is led to `storage_uri`: the spec gives it nothing, and no traffic was seen on it."""

    # --- what a dialect answers where it knows more ---

    def candidate_revision(self, storage_uri: str) -> str:
        """Return the revision of a candidate that serves `storage_uri`; "" if none is known to be its own."""
        return self.revision_of(storage_uri)

    @property
    def is_led_so(self) -> bool:
        """Whether users are known to be led as `traffic` says."""
        return self.traffic_current

    @property
    def traffic_doubt(self) -> str:
        """Why it is not certain that the router has applied the traffic, as a sentence; "" if nothing speaks against
        it.
        """
        return ""

    @property
    def lacks_behind(self) -> bool:
        """Whether something lies behind the InferenceService that was not read, and nobody knows why it cannot be."""
        return False

    @property
    def has_served_another(self) -> bool:
        """Whether a version before the one that the spec names is known to have been served."""
        return False

    @property
    def growths(self) -> int:
        """How many patches of ours have changed nothing but the candidate's replicas since it began at percent 0."""
        return 0

    @property
    def gateway_notes(self) -> tuple[str, ...]:
        """What is known of how the gateways that lead here take weight 0, a sentence or more for each."""
        return ()

    def pods_refused(self, revision: str) -> str:
        """Return why the cluster makes no more pods of a revision; "" if it does, or does not tell."""
        return ""

    # --- what is the same in all ---

    @property
    def candidate_ready(self) -> bool:
        """Whether the newest revision answers requests."""
        return bool(self.latest_created) and self.latest_created == self.latest_ready

    @property
    def stable_revision(self) -> str:
        """The revision that is live: during a canary, the one that was noted when it began."""
        noted = "" if self.canary_percent is None else self.annotation(STABLE_REVISION)
        return noted or self.latest_rolledout

    @property
    def stable_uri(self) -> str:
        """What the version that is live serves: during a canary, what was noted when it began."""
        return self.storage_uri if self.canary_percent is None else self.annotation(STABLE_URI)

    @property
    def candidate_url(self) -> str:
        """The address of the newest revision alone, for testers; "" if the routes give it none."""
        return self.urls.get(self.latest_created, "")

    @property
    def stable_url(self) -> str:
        """The address of the live revision alone; "" if the routes give it none."""
        return self.urls.get(self.stable_revision, "")

    @property
    def is_preview(self) -> bool:
        """Whether percent 0 is the beginning of a canary and not its end: nothing in the spec was changed since.

        Whoever rolls back changes the spec, and with it the generation that was noted when the preview began.
        """
        return self._is_as_begun(PREVIEW_GENERATION)

    @property
    def is_start(self) -> bool:
        """Whether percent 0 is that of a canary whose pods come up before its first users; likewise."""
        return self._is_as_begun(START_GENERATION)

    @property
    def begun_at(self) -> int:
        """The generation over which a preview or a start was laid that nobody has changed."""
        return self.generation - 1 - self.growths

    def _is_as_begun(self, key: str) -> bool:
        noted = self.annotation(key)
        return self.canary_percent == 0 and noted == str(self.generation - self.growths)

    @property
    def transformer_changed(self) -> bool:
        """Whether the transformer is another one than when the canary began, where that was noted."""
        noted = "" if self.canary_percent is None else self.annotation(TRANSFORMER)
        return noted not in ("", self.transformer)

    def share(self, revision: str) -> int:
        """Return the percent of traffic that `revision` was seen to get."""
        return self.traffic.get(revision, 0) if revision else 0

    def alone(self, revision: str) -> bool:
        """Return whether `revision` was seen to get all the traffic."""
        return self.is_led_so and self.is_intended_alone(revision)

    def is_intended_alone(self, revision: str) -> bool:
        """Return whether `revision` is to get all the traffic, whatever the router does."""
        sharing = {name for name, percent in self.traffic.items() if percent > 0}
        return bool(revision) and sharing == {revision}

    def is_split(self, shares: Mapping[str, int]) -> bool:
        """Return whether the traffic was seen to be exactly `shares`, percent by revision."""
        seen = {revision: percent for revision, percent in self.traffic.items() if percent > 0}
        return self.is_led_so and seen == dict(shares)

    def annotation(self, key: str) -> str:
        """Return one annotation, "" if it is not set."""
        return self.annotations.get(key, "")
