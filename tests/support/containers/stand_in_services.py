"""Stand-ins for the images that docker-compose.yaml takes from registries, for machines that reach none.

PostgreSQL and Redis are Debian's; Airflow's packages are resolved here, bound by this project's requirements.txt.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from slipway_sandbox.host.images import find_uv
from slipway_sandbox.host.settings import PROJECT_ROOT
from tests.support.containers.compose_project import inline_dockerfile
from tests.support.containers.docker_engine import DockerEngine
from tests.support.containers.engine import Engine
from tests.support.containers.stand_in_base import Report, provide_debian_base, provide_python_base

SOURCES = Path(__file__).parent / "stand_ins"
# Which variable of `.env.example` names the image that each stands in for.
VARIABLES = {
    "airflow": "SLIPWAY_AIRFLOW_BASE_IMAGE",
    "postgres": "SLIPWAY_POSTGRES_IMAGE",
    "redis": "SLIPWAY_REDIS_IMAGE",
}
AIRFLOW = (
    "apache-airflow[aiobotocore,amazon,async,celery,cncf-kubernetes,common-io,common-messaging,fab,http,postgres,"
    "redis,statsd]==3.3.2"
)
OURS = "slipway/airflow:0.1.0"
RESOLVE_LIMIT_S = 300


def provide_compose_images(
    docker: DockerEngine, builder: Engine, folder: Path, report: Report = print
) -> Mapping[str, str]:
    """Build what is missing, and give it to Docker; return the stand-ins by their variables."""
    provide_debian_base(builder, folder, report)
    provide_python_base(builder, folder, report)
    names = {name: f"localhost/slipway-stand-in/{name}:compose" for name in VARIABLES}
    for name, image in names.items():
        report(f"building {image}")
        _build(builder, name, image)
    report(f"building {OURS}")
    with tempfile.TemporaryDirectory() as text:
        dockerfile = Path(text) / "Dockerfile"
        dockerfile.write_text(inline_dockerfile())
        ours = f"localhost/{OURS}"
        builder.build(dockerfile, PROJECT_ROOT, ours, {"BASE_IMAGE": names["airflow"]})
    given = {names["postgres"]: names["postgres"], names["redis"]: names["redis"], ours: OURS}
    for image, name in given.items():
        report(f"giving {name} to Docker")
        docker.take_over(builder, image, name)
    return {VARIABLES[name]: image for name, image in names.items()}


def _build(builder: Engine, name: str, image: str) -> None:
    uv = find_uv()
    with tempfile.TemporaryDirectory() as text:
        context = Path(text) / name
        shutil.copytree(SOURCES / name, context)
        if name == "airflow":
            (context / "airflow.in").write_text(f"{AIRFLOW}\n")
            bound = ("-c", str(PROJECT_ROOT / "requirements.txt"), "-o", str(context / "requirements.txt"))
            command = [
                uv,
                "pip",
                "compile",
                "--quiet",
                "--no-header",
                "--no-annotate",
                "--python-version",
                "3.11",
                *bound,
            ]
            subprocess.run([*command, str(context / "airflow.in")], check=True, timeout=RESOLVE_LIMIT_S)
        builder.build(context / "Containerfile", context, image, mounts=[f"{uv}:/usr/local/bin/uv:ro"])
