"""The provider's S3 hook, less what it computes anew in each task."""

from __future__ import annotations

from functools import cache
from typing import Any

import botocore.session
from airflow.providers.amazon.aws.hooks.s3 import S3Hook
from botocore.loaders import Loader, create_loader


class S3Connection(S3Hook):
    """The provider's hook with a fixed caller's name, which reads botocore's descriptions of services once a process.

    Without the first it looks for the operator's name in the sources of all functions on the stack, to put it into the
    user agent: a third of what a small task computed. Without the second each client parses 3.6 MB of JSON.
    """

    def _get_caller(self, target_function_name: str = "execute") -> str:
        return "ModelStoreHook"

    def get_session(self, region_name: str | None = None, deferrable: bool = False) -> Any:
        """Return the connection's session; see the provider's hook. An asynchronous one shares descriptions already."""
        session = super().get_session(region_name, deferrable)
        if not deferrable:
            _share_descriptions(session._session)
        return session


def read_descriptions_ahead() -> None:
    """Read what botocore knows of S3, so that processes that are forked from this one need not. Nothing is asked."""
    session = botocore.session.get_session()
    _share_descriptions(session)
    # Without credentials botocore would look for those of a machine in the cloud.
    session.set_credentials("none", "none")
    client = session.create_client("s3", region_name="us-east-1")
    client.get_paginator("list_objects_v2")
    client.close()


def _share_descriptions(session: botocore.session.Session) -> None:
    session.register_component("data_loader", _loader(session.get_config_variable("data_path")))


@cache
def _loader(data_path: str | None) -> Loader:
    return create_loader(data_path)
