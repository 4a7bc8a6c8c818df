"""What one sandbox is made of: its place, ports, secrets, and the connections that Airflow gets for it.

A sandbox is known by its root folder (`.sandbox`, or `SLIPWAY_SANDBOX_ROOT`). Its live state is in
`ROOT/run`. Secrets are
random for each sandbox and, like the ports, stay the same from one start to the next.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from slipway_sandbox.host.files import replace_file
from slipway_sandbox.host.images import IMAGES_VARIABLE, images_dir
from slipway_sandbox.host.ports import LOOPBACK, free_port
from slipway_sandbox.host.preflight import PORT_VARIABLES, port_is_free

PROJECT_ROOT = Path(__file__).resolve().parents[3]
MARKER = "SLIPWAY_SANDBOX"
ROOT_VARIABLE = "SLIPWAY_SANDBOX_ROOT"
REGION = "us-east-1"
ACCOUNT = "123456789012"


class SettingsError(Exception):
    """A sandbox cannot be set up or found as asked.

    The message says what was expected, found, and what to do.
    """


@dataclass(frozen=True)
class Ports:
    """The ports of a sandbox, all on 127.0.0.1."""

    object_store: int
    cluster: int
    ingress: int
    router_admin: int
    staging_http: int
    staging_grpc: int
    staging_metrics: int
    mirror_http: int
    mirror_grpc: int
    airflow: int

    def as_dict(self) -> dict[str, int]:
        """Return port numbers by name."""
        return asdict(self)


@dataclass(frozen=True, repr=False)
class Secrets:
    """Random values that nobody else knows; kept in a file that only its owner reads."""

    airflow_password: str
    cluster_token: str
    object_store_secret: str
    fernet_key: str
    jwt_secret: str
    api_secret: str

    @staticmethod
    def generate() -> Secrets:
        """Return new random secrets."""
        return Secrets(
            airflow_password=secrets.token_urlsafe(9),
            cluster_token=secrets.token_urlsafe(32),
            object_store_secret=secrets.token_urlsafe(32),
            fernet_key=base64.urlsafe_b64encode(secrets.token_bytes(32)).decode("ascii"),
            jwt_secret=secrets.token_urlsafe(48),
            api_secret=secrets.token_urlsafe(48),
        )


@dataclass(frozen=True)
class SandboxSettings:
    """One sandbox: folders, ports, secrets. Everything else about it follows from these."""

    root: Path
    images_dir: Path
    ports: Ports
    secrets: Secrets
    airflow_user: str = "admin"
    airflow_colleague: str = "colleague"
    bucket: str = "slipway"
    queue: str = "slipway-intake"
    domain: str = "sandbox.slipway"
    access_key: str = "slipway-sandbox"

    @property
    def run_dir(self) -> Path:
        """The live state: made again by every start."""
        return self.root / "run"

    @property
    def log_dir(self) -> Path:
        """Logs of the present, or the last, run."""
        return self.run_dir / "logs"

    @property
    def kubeconfig(self) -> Path:
        """How clients reach the cluster's API."""
        return self.run_dir / "kubeconfig"

    @property
    def token_file(self) -> Path:
        """The bearer token of the cluster's API."""
        return self.run_dir / "cluster-token"

    @property
    def cli_file(self) -> Path:
        """How the command `slipway` reaches this sandbox: address, login, bucket."""
        return self.run_dir / "cli.toml"

    @property
    def guard_alive_file(self) -> Path:
        """The file that the guard touches at every look."""
        return self.run_dir / "guard-alive"

    @property
    def router_dir(self) -> Path:
        """The configuration that the router watches."""
        return self.run_dir / "router"

    @property
    def airflow_home(self) -> Path:
        """AIRFLOW_HOME."""
        return self.run_dir / "airflow"

    @property
    def airflow_password(self) -> str:
        """What `airflow_user` and `airflow_colleague` log in with."""
        return self.secrets.airflow_password

    @property
    def object_store_url(self) -> str:
        """S3 and SQS."""
        return f"http://{LOOPBACK}:{self.ports.object_store}"

    @property
    def queue_url(self) -> str:
        """The queue that gets a message for each new version."""
        return f"{self.object_store_url}/{ACCOUNT}/{self.queue}"

    @property
    def cluster_url(self) -> str:
        """The cluster's API."""
        return f"http://{LOOPBACK}:{self.ports.cluster}"

    @property
    def ingress_url(self) -> str:
        """Where clients send requests to models, HTTP and gRPC alike.

        The Host header names the InferenceService.
        """
        return f"http://{LOOPBACK}:{self.ports.ingress}"

    @property
    def router_admin_url(self) -> str:
        """The router's admin interface, with its statistics."""
        return f"http://{LOOPBACK}:{self.ports.router_admin}"

    @property
    def staging_url(self) -> str:
        """The staging Triton's HTTP endpoint."""
        return f"http://{LOOPBACK}:{self.ports.staging_http}"

    @property
    def staging_repository(self) -> str:
        """The staging Triton's model repository, as Triton names S3 places."""
        return f"s3://{self.object_store_url}/{self.bucket}/staging"

    @property
    def airflow_url(self) -> str:
        """Airflow's UI and REST API."""
        return f"http://{LOOPBACK}:{self.ports.airflow}"

    @property
    def dashboard_url(self) -> str:
        """The pages on which people follow releases; Airflow's sign-in opens them."""
        return f"{self.airflow_url}/slipway/"

    def service_host(self, name: str, namespace: str = "models") -> str:
        """Return the Host header that reaches an InferenceService through the router."""
        return f"{name}.{namespace}.{self.domain}"

    def save(self) -> Path:
        """Write `run/sandbox.json`, readable by its owner only."""
        path = self.run_dir / "sandbox.json"
        document = asdict(self) | {"root": str(self.root), "images_dir": str(self.images_dir)}
        replace_file(path, json.dumps(document, indent=2) + "\n", private=True)
        return path

    @staticmethod
    def load(root: Path | None = None) -> SandboxSettings:
        """Return the sandbox at `root` as it was last started.

        :raises SettingsError: there is none or its file is damaged.
        """
        root = root or sandbox_root()
        path = root / "run" / "sandbox.json"
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            document |= {
                "root": root,
                "images_dir": Path(document["images_dir"]),
                "ports": Ports(**document["ports"]),
                "secrets": Secrets(**document["secrets"]),
            }
            return SandboxSettings(**document)
        except FileNotFoundError:
            raise SettingsError(
                f"No sandbox found at {root}. Expected {path}; start one with `make up`."
            ) from None
        except (KeyError, TypeError, ValueError) as error:
            raise SettingsError(
                f"{path} cannot be read. Expected what `make up` writes; found {error!r}. "
                f"Run `make down`, remove that file, and `make up`."
            ) from None

    @staticmethod
    def prepare(root: Path | None = None, environment: Mapping[str, str] = os.environ) -> SandboxSettings:
        """Return settings for a new start.

        Pinned ports, else those of the last start that are free, else free ones.
        """
        root = root or sandbox_root(environment)
        try:
            last: SandboxSettings | None = SandboxSettings.load(root)
        except SettingsError:
            last = None
        return SandboxSettings(
            root=root,
            images_dir=images_dir(environment),
            ports=choose_ports(environment, last.ports if last else None),
            secrets=last.secrets if last else Secrets.generate(),
        )


def sandbox_root(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the root folder of the sandbox that is meant: `SLIPWAY_SANDBOX_ROOT`, or `.sandbox` in the project."""
    named = environment.get(ROOT_VARIABLE)
    return Path(named).resolve() if named else PROJECT_ROOT / ".sandbox"


def choose_ports(environment: Mapping[str, str], last: Ports | None = None) -> Ports:
    """Return a port for each part, no two alike.

    :raises SettingsError: its message names a pinned port which is taken, and its variable.
    """
    pinned = {name: _pinned_port(environment, variable) for name, variable in PORT_VARIABLES.items()}
    chosen: dict[str, int] = {}
    for name, port in pinned.items():
        if port is None:
            continue
        twin = next((other for other, taken in chosen.items() if taken == port), None)
        if twin:
            raise SettingsError(
                f"Port {port} is given twice, by {PORT_VARIABLES[twin]} and {PORT_VARIABLES[name]}. "
                f"Give each its own, or unset one to get a free port."
            )
        if not port_is_free(port):
            raise SettingsError(
                f"Port {port} ({PORT_VARIABLES[name]}) is in use on {LOOPBACK}. End what listens there, "
                "give another, "
                f"or unset {PORT_VARIABLES[name]} and a free port is taken."
            )
        chosen[name] = port
    for field in fields(Ports):
        if field.name not in chosen:
            wanted = getattr(last, field.name) if last else None
            chosen[field.name] = _free_port(set(chosen.values()), wanted)
    return Ports(**chosen)


def _pinned_port(environment: Mapping[str, str], variable: str) -> int | None:
    text = environment.get(variable, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and 1024 <= int(text) <= 65535):
        raise SettingsError(
            f"{variable}={text!r} is not a port. Expected a number from 1024 to 65535; correct it, "
            f"or unset it and a free port is taken."
        )
    return int(text)


def _free_port(taken: set[int], wanted: int | None) -> int:
    if wanted is not None and wanted not in taken and port_is_free(wanted):
        return wanted
    try:
        return free_port(avoid=taken)
    except OSError as error:
        names = ", ".join(PORT_VARIABLES.values())
        raise SettingsError(f"{error.strerror}, or name free ones with {names}.") from None


def object_store_environment(settings: SandboxSettings) -> dict[str, str]:
    """Return what any AWS client needs to speak to the sandbox's object store, and to nothing else."""
    return {
        "AWS_ENDPOINT_URL": settings.object_store_url,
        "AWS_ACCESS_KEY_ID": settings.access_key,
        "AWS_SECRET_ACCESS_KEY": settings.secrets.object_store_secret,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def connection_environment(settings: SandboxSettings) -> dict[str, str]:
    """Return Airflow's connections and variables for this sandbox, as environment variables."""
    connections = {
        "AWS_DEFAULT": {
            "conn_type": "aws",
            "login": settings.access_key,
            "password": settings.secrets.object_store_secret,
            "extra": {"endpoint_url": settings.object_store_url, "region_name": REGION},
        },
        "KUBERNETES_DEFAULT": {
            "conn_type": "kubernetes",
            "extra": {"kube_config_path": str(settings.kubeconfig)},
        },
        "TRITON_STAGING": {
            "conn_type": "generic",
            "host": LOOPBACK,
            "port": settings.ports.staging_http,
            "extra": {"grpc_port": settings.ports.staging_grpc},
        },
        "SLIPWAY_METRICS": {
            "conn_type": "http",
            "host": LOOPBACK,
            "port": settings.ports.router_admin,
            "schema": "http",
        },
        "SLIPWAY_MIRROR": {
            "conn_type": "http",
            "host": LOOPBACK,
            "port": settings.ports.mirror_http,
            "extra": {"grpc_port": settings.ports.mirror_grpc},
        },
        "SLIPWAY_INGRESS": {
            "conn_type": "http",
            "host": LOOPBACK,
            "port": settings.ports.ingress,
            "schema": "http",
        },
    }
    environment = {f"AIRFLOW_CONN_{name}": json.dumps(value) for name, value in connections.items()}
    return environment | {
        "AIRFLOW_VAR_SLIPWAY_BUCKET": settings.bucket,
        "AIRFLOW_VAR_SLIPWAY_INTAKE_QUEUE_URL": settings.queue_url,
        "SLIPWAY_INTAKE_QUEUE_URL": settings.queue_url,
    }


def sandbox_environment(
    settings: SandboxSettings, inherited: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return the environment of every process of the sandbox.

    What the caller has set for another Airflow, cloud or cluster is left out: a sandbox never reaches either.
    """
    foreign = ("AIRFLOW", "AWS_", "KUBE", "PYTHON", "VIRTUAL_ENV", "SLIPWAY_PORT_")
    kept = {name: value for name, value in inherited.items() if not name.startswith(foreign)}
    bin_dir = str(Path(sys.executable).absolute().parent)
    no_proxy = ",".join(
        filter(None, [inherited.get("NO_PROXY") or inherited.get("no_proxy"), LOOPBACK, "localhost"])
    )
    return kept | {
        MARKER: str(settings.root),
        ROOT_VARIABLE: str(settings.root),
        IMAGES_VARIABLE: str(settings.images_dir),
        "PATH": f"{bin_dir}:{kept.get('PATH', os.defpath)}",
        "PYTHONPATH": str(PROJECT_ROOT / "include"),
        "PYTHONUNBUFFERED": "1",
        "NO_PROXY": no_proxy,
        "no_proxy": no_proxy,
        **object_store_environment(settings),
        **connection_environment(settings),
    }
