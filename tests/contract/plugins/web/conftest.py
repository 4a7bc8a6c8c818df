"""The dashboard as Airflow serves it."""

from tests.support.web.fixtures import client_of, house, site

__all__ = ["client_of", "house", "site"]
