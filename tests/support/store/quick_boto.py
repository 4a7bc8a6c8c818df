"""Boto's clients for less computing: a test makes several, and asks S3 often.

What is remembered here are functions of botocore that give the same for the same arguments, whichever session or client
asks. To import this module is enough.
"""

from __future__ import annotations

import functools
from collections.abc import Collection
from typing import Any

import botocore.endpoint_provider
import botocore.hooks
import botocore.regions
import botocore.session
import botocore.useragent
import botocore.utils

# A client reads its service's description, 100 ms of computing for S3. The descriptions are files of the installed
# package: read once, they serve all sessions of a process.
botocore.session.create_loader = functools.cache(botocore.session.create_loader)
# A session asks each of some hundred handlers for its signature.
botocore.hooks.accepts_kwargs = functools.lru_cache(maxsize=1000)(botocore.hooks.accepts_kwargs)
# Each object of a list has a time, which moto writes and boto reads by trying out how it is written.
botocore.utils._parse_timestamp_with_tzinfo = functools.lru_cache(maxsize=10_000)(
    botocore.utils._parse_timestamp_with_tzinfo
)
# Each request says which program sends it, cleaned letter by letter.
botocore.useragent.sanitize_user_agent_string_component = functools.lru_cache(maxsize=1000)(
    botocore.useragent.sanitize_user_agent_string_component
)

_PLAIN = botocore.hooks.EventAliaser(None)
_plain_event_name = botocore.hooks.EventAliaser._alias_event_name
_event_name = functools.lru_cache(maxsize=10_000)(functools.partial(_plain_event_name, _PLAIN))


def _shared_event_name(self: botocore.hooks.EventAliaser, event_name: str) -> str:
    """Return the name by which an event is known today; a session has none of its own."""
    return _event_name(event_name)


botocore.hooks.EventAliaser._alias_event_name = _shared_event_name

_providers: dict[tuple[int, int, frozenset[str]], tuple[Any, ...]] = {}


def _shared_provider(
    ruleset_data: Any, partition_data: Any, excluded_params: Collection[str] | None = None
) -> botocore.endpoint_provider.EndpointProvider:
    """Return the rules by which a service's address is found, read once for a description that was read once."""
    key = (id(ruleset_data), id(partition_data), frozenset(excluded_params or ()))
    if key not in _providers:
        made = botocore.endpoint_provider.EndpointProvider(ruleset_data, partition_data, excluded_params)
        # What is kept has its number to itself.
        _providers[key] = (made, ruleset_data, partition_data)
    return _providers[key][0]


botocore.regions.EndpointProvider = _shared_provider
