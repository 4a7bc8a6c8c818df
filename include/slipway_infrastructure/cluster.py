"""The EKS cluster: its API, add-ons, node groups, and who administers it."""

from __future__ import annotations

import json

from slipway_infrastructure.nodes import node_outputs, node_parameters, node_resources
from slipway_infrastructure.roles import IDENTITY
from slipway_infrastructure.template import (
    CLUSTER_NAME,
    Json,
    attribute,
    choice,
    differs,
    equals,
    only_if,
    output,
    ref,
    resource,
    sub,
    template,
    text,
)

BEFORE_NODES = {
    # Network policies are enforced only if the add-on is asked for it.
    "vpc-cni": {"enableNetworkPolicy": "true"},
    "kube-proxy": {},
    "eks-pod-identity-agent": {},
}
AFTER_NODES: dict[str, dict[str, str]] = {"coredns": {}}
_ISSUER = {
    "Fn::Select": [1, {"Fn::Split": ["//", attribute("OpenIdConnectIssuerUrl", "Cluster")]}],
}


def _managed(name: str) -> Json:
    return sub(f"arn:${{AWS::Partition}}:iam::aws:policy/{name}")


def _service_role(service: str, policies: list[str]) -> Json:
    statement = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
    return resource(
        "AWS::IAM::Role",
        {
            "AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": [statement]},
            "ManagedPolicyArns": [_managed(name) for name in policies],
        },
    )


def _addons(names: dict[str, dict[str, str]], **attributes: object) -> dict[str, Json]:
    return {
        f"{name.title().replace('-', '')}Addon": resource(
            "AWS::EKS::Addon",
            {
                "ClusterName": ref("Cluster"),
                "AddonName": name,
                "ResolveConflicts": "OVERWRITE",
                **({"ConfigurationValues": json.dumps(values)} if values else {}),
            },
            **attributes,
        )
        for name, values in names.items()
    }


def _cluster() -> Json:
    return resource(
        "AWS::EKS::Cluster",
        {
            "Name": ref("ClusterName"),
            "Version": ref("KubernetesVersion"),
            "RoleArn": attribute("Arn", "ClusterRole"),
            "AccessConfig": {
                "AuthenticationMode": "API",
                # Whoever deploys the stack gets no right by that: the entry below names the administrator.
                "BootstrapClusterCreatorAdminPermissions": False,
            },
            "BootstrapSelfManagedAddons": False,
            "ResourcesVpcConfig": {
                "SubnetIds": ref("Subnets"),
                "EndpointPrivateAccess": True,
                "EndpointPublicAccess": choice("IsPublic", True, False),
                "PublicAccessCidrs": only_if("IsPublic", {"Fn::Split": [",", ref("PublicAccess")]}),
            },
            "Logging": {
                "ClusterLogging": {
                    "EnabledTypes": [{"Type": kind} for kind in ("api", "audit", "authenticator")]
                }
            },
        },
    )


def cluster() -> Json:
    """Return the template of the cluster; the network must exist."""
    before = _addons(BEFORE_NODES)
    resources = {
        "ClusterRole": _service_role("eks.amazonaws.com", ["AmazonEKSClusterPolicy"]),
        "NodeRole": _service_role(
            "ec2.amazonaws.com",
            ["AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", "AmazonEC2ContainerRegistryPullOnly"],
        ),
        "Cluster": _cluster(),
        "Administrator": resource(
            "AWS::EKS::AccessEntry",
            {
                "ClusterName": ref("Cluster"),
                "PrincipalArn": ref("AdministratorArn"),
                "AccessPolicies": [
                    {
                        "PolicyArn": sub(
                            "arn:${AWS::Partition}:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
                        ),
                        "AccessScope": {"Type": "cluster"},
                    }
                ],
            },
        ),
        "OidcProvider": resource(
            "AWS::IAM::OIDCProvider",
            {
                "Url": attribute("OpenIdConnectIssuerUrl", "Cluster"),
                "ClientIdList": ["sts.amazonaws.com"],
            },
            Condition="ByIrsa",
        ),
        **before,
        **node_resources(sorted(before)),
        **_addons(AFTER_NODES, DependsOn="ServingNodes"),
    }
    return template(
        "Slipway: the EKS cluster, its add-ons and nodes",
        resources,
        parameters={
            "ClusterName": CLUSTER_NAME,
            "KubernetesVersion": text(
                "A version that EKS offers: aws eks describe-cluster-versions lists them.",
                pattern=r"1\.[0-9]{2}",
            ),
            "Subnets": {
                "Type": "List<AWS::EC2::Subnet::Id>",
                "Description": "The output PrivateSubnets of the network's stack.",
            },
            "AdministratorArn": text(
                "The IAM role or user that administers the cluster; a role, not a session of it.",
                pattern=r"arn:aws[a-z-]*:iam::[0-9]{12}:(role|user)/.+",
            ),
            "PublicAccess": text(
                "From which addresses the API is reached over the internet, as blocks with commas between them. "
                "Empty: only from within the network.",
                "",
            ),
            "Identity": IDENTITY,
            **node_parameters(),
        },
        conditions={"IsPublic": differs("PublicAccess", ""), "ByIrsa": equals("Identity", "IRSA")},
        outputs={
            "OidcIssuer": output("The parameter OidcIssuer of the roles' stack.", _ISSUER),
            **node_outputs(),
        },
    )
