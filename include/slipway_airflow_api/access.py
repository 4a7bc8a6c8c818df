"""Where Airflow's API is, and who asks. Cheap to import."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Access:
    """Where Airflow's API is, and who asks.

    :param token: an access token, in place of user and password.
    :param ca_file: the certificates that are trusted, in place of the system's.
    :param timeout_s: how long one request may wait.
    :param if_silent: what a person can do where nothing answers.
    """

    base_url: str
    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    ca_file: Path | None = None
    timeout_s: float = 30.0
    if_silent: str = "See whether the server is up, and whether the address is right."
