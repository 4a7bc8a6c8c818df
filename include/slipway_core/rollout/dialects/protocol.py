"""What a dialect is: one of KServe's ways to split traffic, with all that differs between them.

A dialect lies in one folder beside this module, and `registry.py` names it. Everybody else asks the registry for the
dialect that an object speaks, and then asks the dialect.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar

from slipway_core.rollout.actions import (
    Action,
    Promote,
    RollBack,
    ShiftWeight,
    ShowCandidate,
    StartCanary,
)
from slipway_core.rollout.observation import Observed
from slipway_core.rollout.reading import Evidence, Object, Reading, Resource

ObservedT = TypeVar("ObservedT", bound=Observed)
Rights = Mapping[Resource, frozenset[str]]


class Dialect(ABC, Generic[ObservedT]):
    """One way to split traffic; `ObservedT` is what an observation of it has beyond `Observed`.

    It holds no state. Nothing of it raises for what an object may hold, and what cannot be read is never safe: it
    refuses the way forward and keeps nobody from the way back, which needs nothing but the cluster.
    """

    #: KServe's deployment mode.
    name: ClassVar[str]

    # --- the cluster ---

    #: What the account of `kubernetes_default` needs in `rollout.namespace`, beyond what every dialect does.
    rights: ClassVar[Rights]
    #: Likewise the guard's.
    guard_rights: ClassVar[Rights]
    #: What the guard lists at every look; a candidate is taken back without it as well.
    watched: ClassVar[tuple[Resource, ...]] = ()
    #: Namespace and name of the ConfigMap that tells whether a first deployment comes up, and can have a canary.
    config_map: ClassVar[tuple[str, str]]

    def readings(self, isvc: Object) -> tuple[Reading, ...]:
        """Return what every observation reads after the InferenceService, in this order."""
        return ()

    def extra_readings(self, isvc: Object) -> tuple[Reading, ...]:
        """Return what is read in addition on request; a rollback's first patch does not wait for it."""
        return ()

    @abstractmethod
    def observe(self, isvc: Object, evidence: Evidence, obstacles: tuple[str, ...]) -> ObservedT:
        """Return the observation that an InferenceService and what was read with it make.

        :param obstacles: why no canary can work on it.
        """

    # --- a first deployment ---

    @abstractmethod
    def annotations(self, notes: Mapping[str, str]) -> dict[str, str]:
        """Return the annotations with which an InferenceService is created; `notes` are slipway's."""

    @abstractmethod
    def predictor_fields(self, notes: Mapping[str, str]) -> dict[str, Any]:
        """Return what its predictor has besides what every dialect gives it."""

    @abstractmethod
    def asks_config(self, isvc: Object) -> bool:
        """Return whether the ConfigMap has a say in this first deployment."""

    def switches(self, isvc: Object) -> tuple[str, ...]:
        """Return which entries of the ConfigMap must be set for a first deployment to come up, as they are written."""
        return ()

    def refused_pods(self, isvc: Object, config: Mapping[str, str] | None) -> tuple[str, ...]:
        """Return why the cluster would refuse the pods of a first deployment, each with what to do.

        :param config: the ConfigMap's data; None if it was not asked, or cannot be seen.
        """
        return ()

    @abstractmethod
    def preflight(
        self, isvc: Object, evidence: Evidence, config: Mapping[str, str] | None
    ) -> tuple[str, ...]:
        """Return why a canary would not work, each with what to do; () where nothing is seen to stand in its way.

        :param config: the ConfigMap's data; None if it was not asked, or cannot be seen.
        """

    @abstractmethod
    def first_version_doubt(self, observed: ObservedT, uri: str) -> str:
        """Return what a first version that has all traffic is still waited for; "" if it is complete."""

    def withdrawal_doubt(self, observed: ObservedT) -> str:
        """Return why it is not known that no other version was ever served; "" if it is."""
        return ""

    # --- forward ---

    @abstractmethod
    def show_candidate(self, goal: ShowCandidate, observed: ObservedT) -> Action:
        """Return the next action towards a preview."""

    @abstractmethod
    def start_canary(self, goal: StartCanary, observed: ObservedT) -> Action:
        """Return the next action towards a canary at its first weight."""

    @abstractmethod
    def shift_weight(self, goal: ShiftWeight, observed: ObservedT) -> Action:
        """Return the next action towards another weight."""

    @abstractmethod
    def promote(self, goal: Promote, observed: ObservedT) -> Action:
        """Return the next action towards all traffic on the candidate."""

    @abstractmethod
    def serving_doubt(self, observed: ObservedT) -> str:
        """Return why the version that the spec names, without a canary, is not known to have all users; "" if it
        is.
        """

    # --- back ---

    @abstractmethod
    def roll_back(self, goal: RollBack, observed: ObservedT) -> Action:
        """Return the next action back to a good version; `goal.stable_uri` is not empty."""

    #: Whether the end of a rollback takes the candidate's pods away, so that they are drained before it.
    removes_candidate: ClassVar[bool] = False
    #: Whether slipway makes an object that leads testers to the candidate, and takes it away again.
    exposes_candidate: ClassVar[bool] = False
