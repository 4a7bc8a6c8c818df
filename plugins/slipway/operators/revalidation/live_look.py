"""What of a model is live: in the cluster, in its records, and whether a release is under way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowSkipException

from slipway.airflow_run import model_lock
from slipway.hooks.s3_store import ModelStoreHook
from slipway.release_context import make_service
from slipway.release_record.record_reader import RecordReader
from slipway.traffic.reconciler import observe_service
from slipway.workflows import REPOSITORY_GC
from slipway_core.bucket_layout import parse_storage_uri, repository_paths
from slipway_core.errors import ClusterUnavailableError, ForeignChangeError
from slipway_core.operations.live_history import LiveHistory, live_history
from slipway_core.operations.revalidation.report import Standing
from slipway_core.record.arrivals import version_folders
from slipway_core.record.events import Event
from slipway_core.record.fold import fold
from slipway_core.record.kinds import Promoted
from slipway_core.record.state import ReleaseState
from slipway_core.rollout.next_action import serving_doubt
from slipway_core.rollout.observation import Observed
from slipway_core.rollout.servers.served import served_protocol
from slipway_core.spec.release_file import ReleaseSpec
from slipway_core.spec.servers.predictor import ServingProtocol

if TYPE_CHECKING:
    from airflow.sdk import Context


@dataclass(frozen=True)
class Live:
    """How the model stands. `checked`: one version has all users, and nothing is under way.

    :ivar why: in words, where it is something else, or the version is not this model's.
    :ivar version: the live version; None: none, or it is not known.
    :ivar url: where users reach it.
    :ivar mark: changes whenever somebody changes what is live.
    :ivar protocol: by which users ask it.
    :ivar is_foreign: what is live is not a published version of this model.
    """

    standing: Standing
    why: str = ""
    version: int | None = None
    url: str = ""
    mark: str = ""
    protocol: ServingProtocol = "http"
    is_foreign: bool = False


@dataclass(frozen=True)
class Recorded:
    """What the records of all of the model's versions tell.

    :ivar history: which version was live when.
    :ivar promoted_by: of each version, the run that promoted it last.
    :ivar states: the fold of each version's record.
    """

    history: LiveHistory
    promoted_by: Mapping[int, str]
    states: Mapping[int, ReleaseState]


def require_live_version(live: Live, model: str) -> int:
    """Return the version that all users have.

    :raises AirflowSkipException: nothing is live, or a release is under way, which measures the version itself.
    :raises ForeignChangeError: what is live is not a published version of the model.
    :raises ClusterUnavailableError: that is unknown.
    """
    if live.standing in ("nothing_live", "in_flight"):
        raise AirflowSkipException(live.why)
    if live.standing == "checked" and live.version is not None:
        return live.version
    if live.is_foreign:
        raise ForeignChangeError(
            f"what is live is not a published version of {model!r}",
            expected="one of its versions",
            found=live.why,
            remedy="name a version, or find out what changed the InferenceService",
        )
    raise ClusterUnavailableError(
        f"it is unknown which version of {model!r} is live",
        expected="one version with all the traffic",
        found=live.why,
        remedy="wait until the InferenceService has settled, or name a version",
    )


class LiveLook:
    """Looks at one model, as often as it is asked."""

    def __init__(
        self, store: ModelStoreHook, spec: ReleaseSpec, context: Context, *, kubernetes_conn_id: str
    ) -> None:
        self._store, self._spec = store, spec
        self._lock = model_lock(store, spec.model, context)
        self._run_id = context["run_id"]
        self._service = make_service(spec.rollout, kubernetes_conn_id)

    def live(self) -> Live:
        """Return how the model stands now.

        :raises TransientError: the cluster or the store could not be read.
        :raises UserError: the model's lock names no run.
        """
        holder = self._lock.running_holder()
        # A run is not in its own way; retention holds the lock for moments, and of versions that nobody names.
        if holder is not None and holder.release_id != self._run_id and holder.dag_id != REPOSITORY_GC:
            why = f"{holder.dag_id} is under way: run {holder.release_id}, version {holder.version}"
            return Live("in_flight", why)
        observed = observe_service(self._service, behind=True)
        name = f"{self._service.namespace}/{self._service.name}"
        if observed is None or observed.deleting:
            return Live("nothing_live", f"there is no InferenceService {name}")
        if observed.canary_percent is not None:
            return Live("in_flight", f"a canary is under way on {name}: {observed.storage_uri}")
        return self._settled(observed, name)

    def _settled(self, observed: Observed, name: str) -> Live:
        mark = f"{observed.uid} {observed.generation}"
        if not observed.alone(observed.stable_revision) or not observed.url:
            doubt = observed.traffic_doubt or " no revision with an address was seen to have all the traffic"
            return Live("could_not_check", f"it is unknown which version of {name} is live:{doubt}")
        try:
            _, version = parse_storage_uri(observed.storage_uri)
        except ForeignChangeError as error:
            return Live("checked", str(error), url=observed.url, mark=mark, is_foreign=True)
        if observed.storage_uri.rstrip("/") != self._own_uri(version):
            why = f"{name} serves {observed.storage_uri}, which is not {self._own_uri(version)}"
            return Live("checked", why, url=observed.url, mark=mark, is_foreign=True)
        if observed.latest_created != observed.stable_revision:
            why = f"{name} is on its way from {observed.stable_revision} to {observed.latest_created}"
            return Live("could_not_check", why)
        if doubt := serving_doubt(observed):
            return Live("could_not_check", f"it is unknown which version of {name} is live: {doubt}")
        return Live(
            "checked",
            version=version,
            url=observed.url,
            mark=mark,
            protocol=served_protocol(observed.predictor),
        )

    def _own_uri(self, version: int) -> str:
        return repository_paths(self._spec.model, version).storage_uri(self._store.bucket)

    def recorded(self) -> Recorded:
        """Return what the records tell.

        :raises TransientError: they could not be read.
        :raises RecordError: one cannot be right.
        """
        prefix = f"records/{self._spec.model}/"
        versions, _ = version_folders(prefix, self._store.listing(prefix, delimiter="/").folders)
        events: list[Event] = []
        promoted_by: dict[int, str] = {}
        states: dict[int, ReleaseState] = {}
        for version in sorted(versions):
            own = RecordReader(self._store, self._spec.model, version).events()
            if not own:
                continue
            events += own
            states[version] = fold(own)
            for event in own:
                if isinstance(event.data, Promoted):
                    promoted_by[version] = event.release_id
        return Recorded(live_history(self._spec.model, events), promoted_by, states)
