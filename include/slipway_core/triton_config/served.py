"""What a server says that it serves, compared with what was published: both what it lacks and what it has beyond it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway_core.triton_config.canonical import canonical_config
from slipway_core.triton_config.departures import departures_of


def served_differences(wanted: Mapping[str, Any], served: Mapping[str, Any]) -> list[str]:
    """Say in words where a server's configuration means something else than the published one; an empty list: nowhere.

    What Triton fills in by itself means nothing else, and is in neither of the canonical forms.

    :param wanted: the published configuration.
    :param served: the one that the server reports.
    """
    asked, shown = canonical_config(wanted), canonical_config(served)
    lacking = list(departures_of(asked, shown, asked))
    beyond = {key: value for key, value in shown.items() if key not in asked}
    more = [f"{key} is set, which the published configuration leaves out" for key in sorted(beyond)]
    if not lacking and not more and asked != shown:
        more = [f"beyond the published one: {one}" for one in departures_of(shown, asked, shown)]
    return lacking + more


def comparable(served: Mapping[str, Any], *, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return a served configuration without what the published one leaves to the server's hardware.

    A configuration without groups of instances gets one for each GPU, or one for the CPU; a group without numbers of
    GPUs gets those that the server has.
    """
    groups, asked = served.get("instance_group"), wanted.get("instance_group") or ()
    if not asked:
        return {key: value for key, value in served.items() if key != "instance_group"}
    if not isinstance(groups, list) or any(group.get("gpus") for group in asked):
        return dict(served)
    plain = [
        {key: value for key, value in group.items() if key != "gpus"} if isinstance(group, Mapping) else group
        for group in groups
    ]
    return {**served, "instance_group": plain}
