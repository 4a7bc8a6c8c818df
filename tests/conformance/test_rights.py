"""Rights by denial: what is granted works on the real API, and all else is refused with 403."""

from __future__ import annotations

from pathlib import Path

from slipway_core.rollout.dialects.standard.preflight import CONFIG_MAP
from tests.support.conformance.denials import granted, permitted, reviewed
from tests.support.conformance.manifests import FOLDER, objects_of
from tests.support.conformance.real_cluster import RealCluster
from tests.support.conformance.rights import AIRFLOW, documented_rules
from tests.support.conformance.rollouts import Rollouts

RBAC: Path = FOLDER / "guard" / "rbac.yaml"
FLEET_RBAC: Path = FOLDER / "fleet" / "rbac.yaml"
GUARD = "slipway-guard"
BYSTANDER = "bystander"


def test_the_guard_may_do_what_its_manifest_grants_and_nothing_else(cluster: RealCluster) -> None:
    """Of every verb on every kind that matters the granted ones pass; in other namespaces, none."""
    namespace, other = cluster.new_namespace(), cluster.new_namespace()
    manifests = list(objects_of(RBAC, namespace))
    for manifest in manifests:
        cluster.api.apply(manifest)
    (role,) = [one for one in manifests if one["kind"] == "Role"]
    cluster.add_service_account(namespace, BYSTANDER)
    guard = cluster.api.with_token(cluster.token_of(namespace, GUARD))
    bystander = cluster.api.with_token(cluster.token_of(namespace, BYSTANDER))
    assert permitted(guard, namespace) == granted(role["rules"])
    assert permitted(guard, other) == set()
    assert reviewed(guard, namespace) == granted(role["rules"]) | reviewed(bystander, namespace)


def test_airflow_may_do_what_the_page_grants_and_nothing_else(
    cluster: RealCluster, standard: Rollouts
) -> None:
    """The account of `kubernetes_default` needs the rights of docs/cluster.md, and has no others there."""
    airflow = cluster.api.with_token(cluster.token_of(standard.namespace, AIRFLOW))
    assert permitted(airflow, standard.namespace) == granted(documented_rules("rollout.namespace"))
    assert permitted(airflow, "default") == set()
    assert airflow.ask("GET", "/api/v1/namespaces/kserve/configmaps/inferenceservice-config").code == 200
    assert airflow.ask("GET", "/api/v1/namespaces/kserve/configmaps/another").code == 403
    assert standard.hook.config_map(*CONFIG_MAP) is not None


def test_the_fleets_role_gives_what_it_names_and_nothing_else(cluster: RealCluster) -> None:
    """Airflow's account sees the endpoints of a fleet and may fence a server, in the one namespace."""
    namespace, other = cluster.new_namespace(), cluster.new_namespace()
    manifests = list(objects_of(FLEET_RBAC, namespace))
    cluster.add_service_account(namespace, AIRFLOW)
    for manifest in manifests:
        cluster.api.apply(manifest)
    airflow = cluster.api.with_token(cluster.token_of(namespace, AIRFLOW))
    assert permitted(airflow, namespace) == granted(manifests[0]["rules"])
    assert permitted(airflow, other) == set()


def test_whoever_is_known_but_has_no_rights_may_do_nothing(cluster: RealCluster) -> None:
    """The API refuses by default: what the other tests find permitted was granted."""
    namespace = cluster.new_namespace()
    assert permitted(cluster.plane.api("nobody"), namespace) == set()
