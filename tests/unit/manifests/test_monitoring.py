"""include/manifests/monitoring: the token lies in Secrets and files, and who renews it may do nothing else."""

from __future__ import annotations

import re
from typing import Any

import yaml

from slipway.web.metrics import METRICS_PATH
from slipway_sandbox.host.settings import PROJECT_ROOT

FOLDER = PROJECT_ROOT / "include" / "manifests" / "monitoring"
SCRAPE: dict[str, Any] = yaml.safe_load((FOLDER / "scrape-config.yaml").read_text(encoding="utf-8"))["spec"]
TOKEN: dict[str, dict[str, Any]] = {
    one["kind"]: one for one in yaml.safe_load_all((FOLDER / "token.yaml").read_text(encoding="utf-8"))
}
POD: dict[str, Any] = TOKEN["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
PAGE = (PROJECT_ROOT / "docs" / "metrics-export.md").read_text(encoding="utf-8")


def test_the_operator_scrapes_what_the_page_says() -> None:
    """Path and name of the job are those of the page, of the plugin and of the alerts."""
    (block,) = re.findall(r"```yaml\n# prometheus.yml\n(.*?)```", PAGE, re.DOTALL)
    (job,) = yaml.safe_load(block)["scrape_configs"]
    assert SCRAPE["metricsPath"] == job["metrics_path"] == f"/slipway{METRICS_PATH}"
    (relabeling,) = SCRAPE["relabelings"]
    assert relabeling == {"targetLabel": "job", "replacement": job["job_name"]}
    assert job["authorization"].keys() == {"type", "credentials_file"}


def test_the_token_is_the_secret_that_is_renewed() -> None:
    """The ScrapeConfig reads what the program patches, and its account may patch that one Secret alone."""
    name = TOKEN["Secret"]["metadata"]["name"]
    assert SCRAPE["authorization"]["credentials"] == {"name": name, "key": "token"}
    assert TOKEN["Role"]["rules"] == [
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": [name], "verbs": ["patch"]}
    ]
    (container,) = POD["containers"]
    environment = {one["name"]: one["value"] for one in container["env"]}
    assert environment["SECRET_URL"].endswith(f"/api/v1/namespaces/monitoring/secrets/{name}")
    assert TOKEN["RoleBinding"]["subjects"][0]["name"] == POD["serviceAccountName"]


def test_no_secret_is_a_variable_or_stands_in_a_manifest() -> None:
    """Name and password come as files; the Secret of the token is empty until it is renewed."""
    (container,) = POD["containers"]
    assert all(one.keys() == {"name", "value"} for one in container["env"])
    assert "envFrom" not in container
    assert not TOKEN["Secret"].keys() & {"data", "stringData"}


def test_the_pod_may_do_no_more_than_it_must() -> None:
    """No root, no rights, a root file system that cannot be written, limits of memory."""
    (container,) = POD["containers"]
    context = container["securityContext"]
    assert (POD["securityContext"]["runAsNonRoot"], context["readOnlyRootFilesystem"]) == (True, True)
    assert (context["allowPrivilegeEscalation"], context["capabilities"]) == (False, {"drop": ["ALL"]})
    assert container["resources"]["limits"]["memory"]
