"""The dashboard as Airflow serves it."""

from tests.support.web.fixtures import client_of, site

__all__ = ["client_of", "site"]
