"""What carries acts out needs of Airflow: its REST API, asked as the person who acts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from slipway_core.errors import SlipwayError


class Airflow(Protocol):
    """Airflow's REST API. Each path is given in its parts, below `/api/v2/`; each method returns the answer's object.

    A parameter may be a list, which is given once for each of its values. Whatever Airflow refuses, and that it does
    not answer, is raised as a `SlipwayError` of the client's own.
    """

    async def get(self, *path: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Read something."""
        ...

    async def post(self, *path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create something."""
        ...

    async def patch(self, *path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Change something."""
        ...

    def status_of(self, error: SlipwayError) -> int:
        """Return the HTTP status of the answer that an error stands for; 0: Airflow did not answer."""
        ...
