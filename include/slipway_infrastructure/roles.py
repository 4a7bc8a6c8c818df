"""The AWS roles of Slipway's service accounts, by EKS Pod Identity or IRSA, each with the least actions."""

from __future__ import annotations

import json
from dataclasses import dataclass

from slipway_infrastructure.manifests import policy
from slipway_infrastructure.template import (
    BUCKET_NAME,
    CLUSTER_NAME,
    Json,
    attribute,
    choice,
    differs,
    equals,
    one_of,
    output,
    ref,
    resource,
    sub,
    template,
    text,
)

IDENTITY = one_of("How pods get their role.", ("PodIdentity", "IRSA"), "PodIdentity")
NAMESPACES = {
    "AirflowNamespace": text("The namespace of Airflow.", "airflow"),
    "PodsNamespace": text("The namespace of releases' pods: podsNamespace of the chart's team.", "models"),
    "ServingNamespace": text(
        "The namespace of served models: servingNamespace of the chart's team.", "models"
    ),
    "SlipwayNamespace": text("The namespace of the chart itself, with the staging Triton.", "slipway"),
}


@dataclass(frozen=True)
class Role:
    """A role, and the service account whose pods have it.

    :param logical: its name in templates.
    :param name: its name in AWS, as the bucket's policy has it.
    :param rights: the file of include/manifests/bucket with its own policy.
    :param writes: whether it writes objects.
    :param account: the service account.
    :param namespace: the parameter that names the account's namespace.
    """

    logical: str
    name: str
    rights: str
    writes: bool
    account: str
    namespace: str


PUBLISHER = Role("Publisher", "slipway-publisher", "airflow", True, "slipway-publisher", "AirflowNamespace")
AIRFLOW = Role("Airflow", "slipway-airflow", "airflow", True, "slipway-airflow", "AirflowNamespace")
ROLES = (
    PUBLISHER,
    AIRFLOW,
    Role("Pages", "slipway-pages", "pages", True, "slipway-pages", "AirflowNamespace"),
    Role("Pods", "slipway-pods", "pods", True, "slipway", "PodsNamespace"),
    Role("Models", "slipway-models", "models", False, "slipway-models", "ServingNamespace"),
    Role("Staging", "slipway-staging", "staging", False, "triton-staging", "SlipwayNamespace"),
)
"""Roles of service accounts."""

COLLECTOR = "slipway-collector"
"""The role of `repository_gc`: no service account has it. Airflow's workers assume it by a connection."""


def _document(*statements: Json) -> Json:
    return {"Version": "2012-10-17", "Statement": list(statements)}


def _by_pod_identity(role: Role) -> Json:
    """Return the trust in EKS Pod Identity, for one cluster, namespace and service account."""
    cluster = "arn:${AWS::Partition}:eks:${AWS::Region}:${AWS::AccountId}:cluster/${ClusterName}"
    return _document(
        {
            "Effect": "Allow",
            "Principal": {"Service": "pods.eks.amazonaws.com"},
            "Action": ["sts:AssumeRole", "sts:TagSession"],
            "Condition": {
                "StringEquals": {
                    "aws:SourceAccount": ref("AWS::AccountId"),
                    "aws:RequestTag/kubernetes-namespace": ref(role.namespace),
                    "aws:RequestTag/kubernetes-service-account": role.account,
                },
                "ArnEquals": {"aws:SourceArn": sub(cluster)},
            },
        }
    )


def _by_irsa(role: Role) -> Json:
    """Return the trust in the cluster's identity provider, as a text: its address is part of keys."""
    subject = f"system:serviceaccount:${{{role.namespace}}}:{role.account}"
    provider = "arn:${AWS::Partition}:iam::${AWS::AccountId}:oidc-provider/${OidcIssuer}"
    statement = {
        "Effect": "Allow",
        "Principal": {"Federated": provider},
        "Action": "sts:AssumeRoleWithWebIdentity",
        "Condition": {
            "StringEquals": {"${OidcIssuer}:aud": "sts.amazonaws.com", "${OidcIssuer}:sub": subject}
        },
    }
    return sub(json.dumps(_document(statement)))


def _key_policy(name: str, actions: list[str], users: list[str]) -> Json:
    statement = {"Sid": "UsesTheKey", "Effect": "Allow", "Action": actions, "Resource": ref("KeyArn")}
    return resource(
        "AWS::IAM::Policy",
        {"PolicyName": name, "PolicyDocument": _document(statement), "Roles": [ref(one) for one in users]},
        Condition="WithKey",
    )


def _role(role: Role, *more: Json) -> Json:
    own = {"PolicyName": "own", "PolicyDocument": policy("bucket", role.rights)}
    return resource(
        "AWS::IAM::Role",
        {
            "RoleName": role.name,
            "AssumeRolePolicyDocument": choice("ByIrsa", _by_irsa(role), _by_pod_identity(role)),
            "Policies": [own, *more],
        },
    )


def _collector() -> Json:
    trust = {
        "Effect": "Allow",
        "Principal": {"AWS": attribute("Arn", PUBLISHER.logical)},
        # Session tags of Pod Identity are handed on.
        "Action": ["sts:AssumeRole", "sts:TagSession"],
    }
    own = {"PolicyName": "own", "PolicyDocument": policy("bucket", "collector")}
    return resource(
        "AWS::IAM::Role",
        {
            "RoleName": COLLECTOR,
            "AssumeRolePolicyDocument": _document(trust),
            "Policies": [own],
        },
    )


def roles() -> Json:
    """Return the template of the roles; the cluster must exist for IRSA, and need not for Pod Identity."""
    receives = {"PolicyName": "queue", "PolicyDocument": policy("queue", "receiver")}
    collects = {
        "PolicyName": "collector",
        "PolicyDocument": _document(
            {
                "Sid": "BecomesTheCollector",
                "Effect": "Allow",
                "Action": ["sts:AssumeRole", "sts:TagSession"],
                "Resource": sub(f"arn:${{AWS::Partition}}:iam::${{AWS::AccountId}}:role/{COLLECTOR}"),
            }
        ),
    }
    more = {PUBLISHER: [collects], AIRFLOW: [receives]}
    own = {role.logical: _role(role, *more.get(role, [])) for role in ROLES}
    writers = [*(role.logical for role in ROLES if role.writes), "Collector"]
    readers = [role.logical for role in ROLES if not role.writes]
    return template(
        "Slipway: the roles of its service accounts",
        {
            **own,
            "Collector": _collector(),
            "KeyWriters": _key_policy("key-writers", ["kms:Decrypt", "kms:GenerateDataKey"], writers),
            "KeyReaders": _key_policy("key-readers", ["kms:Decrypt"], readers),
        },
        parameters={
            "BucketName": BUCKET_NAME,
            "ClusterName": CLUSTER_NAME,
            "Identity": IDENTITY,
            "OidcIssuer": text("With Identity=IRSA: the output OidcIssuer of the cluster's stack.", ""),
            "KeyArn": text("The output KeyArn of the bucket's stack, if it has one.", ""),
            **NAMESPACES,
        },
        rules={
            "IrsaNeedsTheIssuer": {
                "RuleCondition": equals("Identity", "IRSA"),
                "Assertions": [
                    {
                        "Assert": differs("OidcIssuer", ""),
                        "AssertDescription": "With Identity=IRSA, OidcIssuer is required.",
                    }
                ],
            }
        },
        conditions={"ByIrsa": equals("Identity", "IRSA"), "WithKey": differs("KeyArn", "")},
        outputs={
            **{
                f"{role.logical}Arn": output(f"{role.name}.", attribute("Arn", role.logical))
                for role in ROLES
            },
            "CollectorArn": output(
                "The role_arn of the connection in SLIPWAY_GC_AWS_CONN_ID.", attribute("Arn", "Collector")
            ),
        },
    )
