"""The roles in the templates: who may take which, and that every name is the one that others expect."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slipway_core.spec.pods.settings import PodSettings
from slipway_core.spec.servers.predictor import Predictor
from slipway_infrastructure.access import GROUP, access
from slipway_infrastructure.roles import COLLECTOR, ROLES, Role, roles
from tests.support.infrastructure.evaluation import Stack
from tests.support.store.bucket_policy import OTHERS, SLIPWAYS

ISSUER = "oidc.eks.eu-west-1.amazonaws.com/id/EXAMPLE"
ACCOUNTS = {
    "slipway-publisher": ("airflow", "slipway-publisher"),
    "slipway-airflow": ("airflow", "slipway-airflow"),
    "slipway-pages": ("airflow", "slipway-pages"),
    "slipway-pods": ("models", "slipway"),
    "slipway-models": ("models", "slipway-models"),
    "slipway-staging": ("slipway", "triton-staging"),
}
"""Namespace and service account of each role, as the charts have them by default."""

each_role = pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)


def trust(role: Role, **given: str) -> Any:
    """Who may take a role: the only statement of its trust policy."""
    document = Stack(roles(), **given).properties(role.logical)["AssumeRolePolicyDocument"]
    (statement,) = (json.loads(document) if isinstance(document, str) else document)["Statement"]
    return statement


def test_the_roles_are_those_of_the_buckets_policy() -> None:
    """The policy knows roles by their names; two more only read, as everybody else."""
    names = {one["RoleName"] for one in Stack(roles()).of_type("AWS::IAM::Role").values()}
    assert set(SLIPWAYS) <= names
    assert names - set(SLIPWAYS) == {"slipway-models", "slipway-staging"}
    assert names - set(SLIPWAYS) <= set(OTHERS)


def test_accounts_are_those_of_release_files_and_charts() -> None:
    """The defaults of a release file, and of the charts."""
    found = {role.name: (Stack(roles()).value({"Ref": role.namespace}), role.account) for role in ROLES}
    assert found == ACCOUNTS
    assert ACCOUNTS["slipway-pods"][1] == PodSettings.model_fields["service_account"].default
    assert ACCOUNTS["slipway-models"][1] == Predictor.model_fields["service_account"].default


@each_role
def test_by_pod_identity_one_service_account_of_one_cluster_gets_it(role: Role) -> None:
    """Another namespace, account or cluster of the same AWS account does not."""
    namespace, account = ACCOUNTS[role.name]
    assert trust(role, ClusterName="mine") == {
        "Effect": "Allow",
        "Principal": {"Service": "pods.eks.amazonaws.com"},
        "Action": ["sts:AssumeRole", "sts:TagSession"],
        "Condition": {
            "StringEquals": {
                "aws:SourceAccount": "ACCOUNT",
                "aws:RequestTag/kubernetes-namespace": namespace,
                "aws:RequestTag/kubernetes-service-account": account,
            },
            "ArnEquals": {"aws:SourceArn": "arn:aws:eks:REGION:ACCOUNT:cluster/mine"},
        },
    }


@each_role
def test_by_irsa_one_service_account_of_one_cluster_gets_it(role: Role) -> None:
    """The token's issuer, audience and subject are all required, without a wildcard."""
    namespace, account = ACCOUNTS[role.name]
    assert trust(role, Identity="IRSA", OidcIssuer=ISSUER) == {
        "Effect": "Allow",
        "Principal": {"Federated": f"arn:aws:iam::ACCOUNT:oidc-provider/{ISSUER}"},
        "Action": "sts:AssumeRoleWithWebIdentity",
        "Condition": {
            "StringEquals": {
                f"{ISSUER}:aud": "sts.amazonaws.com",
                f"{ISSUER}:sub": f"system:serviceaccount:{namespace}:{account}",
            }
        },
    }


def test_irsa_without_its_issuer_is_refused() -> None:
    """CloudFormation evaluates the rule before it creates anything."""
    rule = roles()["Rules"]["IrsaNeedsTheIssuer"]
    assert rule["RuleCondition"] == {"Fn::Equals": [{"Ref": "Identity"}, "IRSA"]}
    assert rule["Assertions"][0]["Assert"] == {"Fn::Not": [{"Fn::Equals": [{"Ref": "OidcIssuer"}, ""]}]}


def test_no_service_account_is_the_collector() -> None:
    """Airflow's workers take it for repository_gc, by a connection; nobody else does."""
    assert COLLECTOR not in {role.name for role in ROLES}
    (statement,) = Stack(roles()).properties("Collector")["AssumeRolePolicyDocument"]["Statement"]
    assert statement["Principal"] == {"AWS": "<Publisher.Arn>"}


def test_a_key_is_used_by_the_roles_and_only_if_there_is_one() -> None:
    """Readers may decrypt; writers may also make data keys; nobody may administer it."""
    key = "arn:aws:kms:eu-west-1:111122223333:key/1"
    kind = "AWS::IAM::Policy"
    assert Stack(roles()).of_type(kind) == {}
    rights: dict[str, list[str]] = {}
    for policy in Stack(roles(), KeyArn=key).of_type(kind).values():
        (statement,) = policy["PolicyDocument"]["Statement"]
        assert statement["Resource"] == key
        rights |= dict.fromkeys(policy["Roles"], statement["Action"])
    writes, reads = ["kms:Decrypt", "kms:GenerateDataKey"], ["kms:Decrypt"]
    assert rights == {
        **{f"<{role.logical}>": writes for role in ROLES},
        "<Collector>": writes,
        "<Models>": reads,
        "<Staging>": reads,
    }


def test_each_role_is_associated_with_its_account() -> None:
    """By EKS Pod Identity; IRSA needs no association."""
    found = Stack(access(), ClusterName="mine").of_type("AWS::EKS::PodIdentityAssociation")
    assert {
        one["RoleArn"].rpartition("/")[2]: (one["Namespace"], one["ServiceAccount"]) for one in found.values()
    } == ACCOUNTS
    assert {one["ClusterName"] for one in found.values()} == {"mine"}
    assert Stack(access(), Identity="IRSA").resources() == {}


def test_an_airflow_outside_the_cluster_gets_a_group_and_no_policy_of_eks() -> None:
    """Its rights are those that the chart gives to the group."""
    found = Stack(access(), AirflowRuns="Outside").of_type("AWS::EKS::AccessEntry")
    assert {one["PrincipalArn"] for one in found.values()} == {
        f"arn:aws:iam::ACCOUNT:role/{name}" for name in ("slipway-publisher", "slipway-airflow")
    }
    assert [one["KubernetesGroups"] for one in found.values()] == [[GROUP], [GROUP]]
    assert not any("AccessPolicies" in one for one in found.values())
