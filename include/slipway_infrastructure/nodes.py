"""The cluster's node groups: on-demand CPU, GPU, and spot CPU for releases' pods."""

from __future__ import annotations

from dataclasses import dataclass, field

from slipway_infrastructure.template import (
    Json,
    attribute,
    number,
    output,
    ref,
    resource,
    sub,
    tags,
)

LABEL = "slipway.dev/nodes"
"""The label that each node has: `serving`, `gpu` or `releases`. Release files select nodes by it."""

_EFFECTS = {"NoSchedule": "NO_SCHEDULE"}


@dataclass(frozen=True)
class NodeGroup:
    """A managed node group.

    :param logical: its name in templates, and the beginning of its parameters' names.
    :param label: the value of LABEL.
    :param what: the description in its parameters.
    :param machine: the type of its machine image, as EKS names it.
    :param disk: the device of the volume that holds images and pods' scratch.
    :param disk_gb: the size of that volume, in GiB.
    :param types: the default instance types.
    :param counts: the default numbers of nodes: at least, at the start, at most.
    :param spot: whether it runs on spot capacity.
    :param taints: key, value and effect.
    """

    logical: str
    label: str
    what: str
    machine: str
    disk: str
    disk_gb: int
    types: tuple[str, ...]
    counts: tuple[int, int, int]
    spot: bool = False
    taints: tuple[tuple[str, str, str], ...] = field(default=())


GROUPS = (
    NodeGroup(
        "Serving",
        "serving",
        "on-demand nodes for everything that needs no GPU",
        "AL2023_x86_64_STANDARD",
        "/dev/xvda",
        100,
        ("m7i.2xlarge",),
        (3, 3, 6),
    ),
    # Bottlerocket's image for NVIDIA brings the device plugin, which offers nvidia.com/gpu.
    NodeGroup(
        "Gpu",
        "gpu",
        "on-demand nodes with a GPU",
        "BOTTLEROCKET_x86_64_NVIDIA",
        "/dev/xvdb",
        200,
        ("g6.2xlarge",),
        (0, 1, 4),
        taints=(("nvidia.com/gpu", "present", "NoSchedule"),),
    ),
    NodeGroup(
        "Releases",
        "releases",
        "spot nodes for the pods of releases: conversion, smoke test, benchmark",
        "AL2023_x86_64_STANDARD",
        "/dev/xvda",
        100,
        ("m7i.2xlarge", "m6i.2xlarge", "m7a.2xlarge", "m6a.2xlarge"),
        (0, 1, 4),
        spot=True,
        taints=((LABEL, "releases", "NoSchedule"),),
    ),
)


def _launch(group: NodeGroup) -> Json:
    return resource(
        "AWS::EC2::LaunchTemplate",
        {
            "LaunchTemplateData": {
                # One hop: pods can't get the node's role from the metadata service.
                "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 1},
                "BlockDeviceMappings": [
                    {
                        "DeviceName": group.disk,
                        "Ebs": {
                            "VolumeSize": ref(f"{group.logical}DiskGiB"),
                            "VolumeType": "gp3",
                            "Encrypted": True,
                            "DeleteOnTermination": True,
                        },
                    }
                ],
                "TagSpecifications": [
                    {"ResourceType": "instance", "Tags": tags(Name=sub(f"${{ClusterName}}-{group.label}"))}
                ],
            }
        },
    )


def _group(group: NodeGroup, after: list[str]) -> Json:
    taints = [{"Key": key, "Value": value, "Effect": _EFFECTS[effect]} for key, value, effect in group.taints]
    launch = f"{group.logical}Launch"
    return resource(
        "AWS::EKS::Nodegroup",
        {
            "ClusterName": ref("Cluster"),
            "NodegroupName": group.label,
            "NodeRole": attribute("Arn", "NodeRole"),
            "Subnets": ref("Subnets"),
            "AmiType": group.machine,
            "CapacityType": "SPOT" if group.spot else "ON_DEMAND",
            "InstanceTypes": ref(f"{group.logical}InstanceTypes"),
            "LaunchTemplate": {"Id": ref(launch), "Version": attribute("LatestVersionNumber", launch)},
            "ScalingConfig": {
                name: ref(f"{group.logical}{name}") for name in ("MinSize", "DesiredSize", "MaxSize")
            },
            "UpdateConfig": {"MaxUnavailable": 1},
            "Labels": {LABEL: group.label},
            **({"Taints": taints} if taints else {}),
        },
        DependsOn=after,
    )


def node_resources(after: list[str]) -> dict[str, Json]:
    """Return the node groups with their launch templates.

    :param after: the resources that must exist before a node can become ready.
    """
    found: dict[str, Json] = {}
    for group in GROUPS:
        found[f"{group.logical}Launch"] = _launch(group)
        found[f"{group.logical}Nodes"] = _group(group, after)
    return found


def node_parameters() -> dict[str, Json]:
    """Return the parameters of the node groups."""
    found: dict[str, Json] = {}
    for group in GROUPS:
        least, first, most = group.counts
        found |= {
            f"{group.logical}InstanceTypes": {
                "Type": "CommaDelimitedList",
                "Default": ",".join(group.types),
                "Description": f"Instance types, x86-64: {group.what}.",
            },
            f"{group.logical}MinSize": number(f"Nodes at least: {group.what}.", least),
            f"{group.logical}DesiredSize": number(f"Nodes at the start: {group.what}.", first),
            f"{group.logical}MaxSize": number(f"Nodes at most: {group.what}.", most, 1),
            f"{group.logical}DiskGiB": number(
                f"Size of a node's disk in GiB: {group.what}.", group.disk_gb, 20
            ),
        }
    return found


def node_outputs() -> dict[str, Json]:
    """Return the outputs of the node groups."""
    return {"NodeRoleArn": output("The role of the nodes.", attribute("Arn", "NodeRole"))}
