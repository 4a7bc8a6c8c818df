"""The Kubernetes API by plain HTTP, as one user: also where the answer that matters is a refusal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
import yaml

MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
FIELD_MANAGER = "slipway-conformance"
_TIMEOUT_S = 60.0
_REFUSED = 400
Object = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """A status code, and the object or the reason."""

    code: int
    body: Object

    @property
    def is_refusal(self) -> bool:
        """Whether the request was not carried out."""
        return self.code >= _REFUSED


class RefusedError(AssertionError):
    """A request that had to be carried out was refused."""


class Api:
    """What one user may ask of one API server.

    :param url: its address.
    :param token: the user's.
    :param authority: the certificate of who signed the server's.
    """

    def __init__(self, url: str, token: str, authority: Path) -> None:
        self.url = url
        self._authority = authority
        self._session = requests.Session()
        self._session.verify = str(authority)
        self._session.trust_env = False
        self._session.headers["Authorization"] = f"Bearer {token}"
        self._plurals: dict[tuple[str, str], tuple[str, bool]] = {}

    def with_token(self, token: str) -> Api:
        """Return the same API for somebody else."""
        return Api(self.url, token, self._authority)

    def ask(self, method: str, path: str, body: Any = None, *, content: str = "application/json") -> Answer:
        """Send one request; a refusal is an answer."""
        answer = self._session.request(
            method,
            self.url + path,
            json=body,
            headers={"Content-Type": content, "Accept": "application/json"},
            timeout=_TIMEOUT_S,
        )
        try:
            found = answer.json()
        except requests.JSONDecodeError:
            found = {"message": answer.text}
        return Answer(answer.status_code, found)

    def must(self, method: str, path: str, body: Any = None, *, content: str = "application/json") -> Object:
        """Send one request and return the object.

        :raises RefusedError: it was not carried out.
        """
        answer = self.ask(method, path, body, content=content)
        if answer.is_refusal:
            raise RefusedError(f"{method} {path}: {answer.code} {str(answer.body)[:1500]}")
        return answer.body

    def get(self, path: str) -> Object | None:
        """Return one object; None: there is none."""
        answer = self.ask("GET", path)
        if answer.code == requests.codes.not_found:
            return None
        if answer.is_refusal:
            raise RefusedError(f"GET {path}: {answer.code} {str(answer.body)[:1500]}")
        return answer.body

    def items(self, path: str) -> list[Object]:
        """Return the objects of a list."""
        found: list[Object] = self.must("GET", path)["items"]
        return found

    def lines(self, path: str) -> Iterator[bytes]:
        """Yield the lines of an answer that goes on, as a watch does, until the server ends it."""
        with self._session.get(self.url + path, stream=True, timeout=_TIMEOUT_S * 10) as answer:
            answer.raise_for_status()
            yield from answer.iter_lines(chunk_size=1)

    def merge(self, path: str, body: Mapping[str, Any]) -> Object:
        """Merge-patch one object."""
        return self.must("PATCH", path, dict(body), content=MERGE_PATCH)

    def apply(self, manifest: Mapping[str, Any], *, strict: bool = True) -> Object:
        """Apply a manifest on the server's side.

        :param strict: an unknown or repeated field is an error, as with `kubectl apply --validate=strict`.
        """
        validation = "Strict" if strict else "Warn"
        query = f"fieldManager={FIELD_MANAGER}&force=true&fieldValidation={validation}"
        return self.must("PATCH", f"{self.path_of(manifest)}?{query}", dict(manifest), content=APPLY_PATCH)

    def path_of(self, manifest: Mapping[str, Any]) -> str:
        """Return the path of the object that a manifest describes, as the API's discovery has it."""
        version, kind, metadata = manifest["apiVersion"], manifest["kind"], manifest["metadata"]
        base = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if (version, kind) not in self._plurals:
            for one in self.must("GET", base)["resources"]:
                if "/" not in one["name"]:
                    self._plurals[version, one["kind"]] = (one["name"], one["namespaced"])
        plural, is_namespaced = self._plurals[version, kind]
        where = f"/namespaces/{metadata['namespace']}" if is_namespaced else ""
        return f"{base}{where}/{plural}/{metadata['name']}"


def documents(*paths: Path) -> Iterator[Object]:
    """Yield the objects of YAML files."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for path in paths:
        for one in yaml.load_all(path.read_text(encoding="utf-8"), Loader=loader):
            if one:
                yield one
