"""Network, cluster and repositories in the templates: moto knows no EKS cluster, so the templates are asserted on."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from slipway_infrastructure.cluster import cluster
from slipway_infrastructure.manifests import IMAGES
from slipway_infrastructure.network import network
from slipway_infrastructure.registry import registry
from tests.support.infrastructure.evaluation import Stack

NODES = {
    "serving": ("ON_DEMAND", []),
    "gpu": ("ON_DEMAND", [("nvidia.com/gpu", "present", "NO_SCHEDULE")]),
    "releases": ("SPOT", [("slipway.dev/nodes", "releases", "NO_SCHEDULE")]),
}


def made(**given: str) -> Stack:
    """The cluster's stack."""
    return Stack(cluster(), KubernetesVersion="1.36", **given)


def test_the_node_groups() -> None:
    """Each has a label; what must not run everywhere is kept away by a taint."""
    groups = {one["NodegroupName"]: one for one in made().of_type("AWS::EKS::Nodegroup").values()}
    assert {
        name: (
            one["CapacityType"],
            [(taint["Key"], taint["Value"], taint["Effect"]) for taint in one.get("Taints", [])],
        )
        for name, one in groups.items()
    } == NODES
    assert {name: one["Labels"] for name, one in groups.items()} == {
        name: {"slipway.dev/nodes": name} for name in NODES
    }
    assert groups["gpu"]["AmiType"] == "BOTTLEROCKET_x86_64_NVIDIA"
    assert len(groups["releases"]["InstanceTypes"].split(",")) >= 3


def test_pods_cannot_take_the_role_of_their_node() -> None:
    """The metadata service wants a token, which no packet brings to a pod's network."""
    for one in made().of_type("AWS::EC2::LaunchTemplate").values():
        data = one["LaunchTemplateData"]
        assert data["MetadataOptions"] == {"HttpTokens": "required", "HttpPutResponseHopLimit": 1}
        assert data["BlockDeviceMappings"][0]["Ebs"]["Encrypted"] is True


def test_add_ons_that_nodes_need_come_before_them() -> None:
    """Pod Identity's agent is among them, and network policies are enforced."""
    resources = made().resources()
    addons = {name: one["Properties"] for name, one in resources.items() if one["Type"] == "AWS::EKS::Addon"}
    names = {name: one["AddonName"] for name, one in addons.items()}
    assert set(names.values()) == {"vpc-cni", "kube-proxy", "coredns", "eks-pod-identity-agent"}
    (network_addon,) = (one for one in addons.values() if one["AddonName"] == "vpc-cni")
    assert json.loads(network_addon["ConfigurationValues"]) == {"enableNetworkPolicy": "true"}
    for name, one in resources.items():
        if one["Type"] == "AWS::EKS::Nodegroup":
            waits = {names[after] for after in one["DependsOn"]}
            assert waits == {"vpc-cni", "kube-proxy", "eks-pod-identity-agent"}, name


def test_who_administers_the_cluster_is_named() -> None:
    """Rights come from access entries alone; whoever deploys the stack gets none by that."""
    stack = made(AdministratorArn="arn:aws:iam::111122223333:role/platform")
    assert stack.properties("Cluster")["AccessConfig"] == {
        "AuthenticationMode": "API",
        "BootstrapClusterCreatorAdminPermissions": False,
    }
    (entry,) = stack.of_type("AWS::EKS::AccessEntry").values()
    assert entry["PrincipalArn"] == "arn:aws:iam::111122223333:role/platform"
    assert "Default" not in cluster()["Parameters"]["AdministratorArn"]


def test_the_api_is_private_unless_addresses_are_named() -> None:
    """Then it is reached from these alone."""
    private = made().properties("Cluster")["ResourcesVpcConfig"]
    assert (private["EndpointPublicAccess"], private["EndpointPrivateAccess"]) == (False, True)
    assert "PublicAccessCidrs" not in private
    public = made(PublicAccess="192.0.2.0/24,198.51.100.7/32").properties("Cluster")["ResourcesVpcConfig"]
    assert public["EndpointPublicAccess"] is True
    assert public["PublicAccessCidrs"] == ["192.0.2.0/24", "198.51.100.7/32"]


def test_the_identity_provider_is_for_irsa() -> None:
    """Pod Identity needs none."""
    kind = "AWS::IAM::OIDCProvider"
    assert made().of_type(kind) == {}
    (provider,) = made(Identity="IRSA").of_type(kind).values()
    assert provider["ClientIdList"] == ["sts.amazonaws.com"]


def test_three_zones_with_private_subnets_that_do_not_overlap() -> None:
    """Each private subnet leads to a NAT gateway, and to S3 without one."""
    stack = Stack(network(), Zones="a,b,c")
    subnets = stack.of_type("AWS::EC2::Subnet")
    assert len({one["CidrBlock"] for one in subnets.values()}) == len(subnets) == 6
    assert [subnets[f"Private{number}"]["AvailabilityZone"] for number in (1, 2, 3)] == ["a", "b", "c"]
    assert not any("MapPublicIpOnLaunch" in one for one in subnets.values())
    (s3,) = stack.of_type("AWS::EC2::VPCEndpoint").values()
    assert s3["RouteTableIds"] == [f"<PrivateRoutes{number}>" for number in (1, 2, 3)]
    assert stack.outputs()["PrivateSubnets"] == "<Private1>,<Private2>,<Private3>"


@pytest.mark.parametrize(
    ("given", "gateways"),
    [
        pytest.param({}, ["<Nat1>", "<Nat2>", "<Nat3>"], id="in-each-zone"),
        pytest.param({"Nat": "One"}, ["<Nat1>"] * 3, id="one"),
    ],
)
def test_nat_gateways(given: dict[str, str], gateways: list[str]) -> None:
    """No route leads to a gateway that isn't there."""
    stack = Stack(network(), Zones="a,b,c", **given)
    assert [stack.properties(f"ThroughNat{number}")["NatGatewayId"] for number in (1, 2, 3)] == gateways
    assert {f"<{name}>" for name in stack.of_type("AWS::EC2::NatGateway")} == set(gateways)


def test_each_image_has_a_repository() -> None:
    """Named as the images are, with tags that can't be moved."""
    repositories = Stack(registry()).of_type("AWS::ECR::Repository")
    folders = sorted(path.parent.name for path in IMAGES.glob("*/Dockerfile"))
    assert sorted(one["RepositoryName"] for one in repositories.values()) == [
        f"slipway/{name}" for name in folders
    ]
    for one in repositories.values():
        assert one["ImageTagMutability"] == "IMMUTABLE"
        assert one["ImageScanningConfiguration"] == {"ScanOnPush": True}
        (rule,) = json.loads(one["LifecyclePolicy"]["LifecyclePolicyText"])["rules"]
        assert rule["selection"]["tagStatus"] == "untagged"
    assert Stack(registry()).outputs() == {"Registry": "ACCOUNT.dkr.ecr.REGION.amazonaws.com/slipway"}


def test_only_tags_of_one_github_repository_push() -> None:
    """Without a repository there is no such role."""
    assert Stack(registry()).of_type("AWS::IAM::Role") == {}
    (role,) = Stack(registry(), GitHubRepository="me/slipway").of_type("AWS::IAM::Role").values()
    (statement,) = role["AssumeRolePolicyDocument"]["Statement"]
    assert statement["Condition"] == {
        "StringEquals": {"token.actions.githubusercontent.com:aud": "sts.amazonaws.com"},
        "StringLike": {"token.actions.githubusercontent.com:sub": "repo:me/slipway:ref:refs/tags/v*"},
    }
    resources: Any = [one["Resource"] for one in role["Policies"][0]["PolicyDocument"]["Statement"]]
    assert resources == ["*", "arn:aws:ecr:REGION:ACCOUNT:repository/slipway/*"]


def test_a_release_file_of_the_page_reaches_the_nodes() -> None:
    """What docs/infrastructure.md writes into a release file are the labels and taints of the node groups."""
    page = (IMAGES.parents[1] / "docs" / "infrastructure.md").read_text(encoding="utf-8")
    (written,) = re.findall(r"^```yaml\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    release = yaml.safe_load(written)
    for part, group in (("conversion", "releases"), ("rollout", "gpu")):
        ((key, value, _),) = NODES[group][1]
        assert release[part]["node_selector"] == {"slipway.dev/nodes": group}
        (toleration,) = release[part]["tolerations"]
        assert (toleration["key"], toleration["effect"]) == (key, "NoSchedule")
        assert toleration.get("value", value) == value
