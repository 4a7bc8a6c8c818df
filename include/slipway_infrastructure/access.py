"""Which service account gets which role by EKS Pod Identity, and access entries for an Airflow outside the cluster."""

from __future__ import annotations

from slipway_infrastructure.roles import AIRFLOW, NAMESPACES, PUBLISHER, ROLES
from slipway_infrastructure.template import CLUSTER_NAME, Json, equals, one_of, ref, resource, sub, template

GROUP = "slipway:airflow"
"""The group to which the chart's `airflow.subjects` gives the rights if Airflow runs outside the cluster."""


def access() -> Json:
    """Return the template of the associations and access entries; the cluster and the roles must exist."""
    associations = {
        f"{role.logical}Association": resource(
            "AWS::EKS::PodIdentityAssociation",
            {
                "ClusterName": ref("ClusterName"),
                "Namespace": ref(role.namespace),
                "ServiceAccount": role.account,
                "RoleArn": sub(f"arn:${{AWS::Partition}}:iam::${{AWS::AccountId}}:role/{role.name}"),
            },
            Condition="ByPodIdentity",
        )
        for role in ROLES
    }
    entries = {
        f"{role.logical}Entry": resource(
            "AWS::EKS::AccessEntry",
            {
                "ClusterName": ref("ClusterName"),
                "PrincipalArn": sub(f"arn:${{AWS::Partition}}:iam::${{AWS::AccountId}}:role/{role.name}"),
                "KubernetesGroups": [GROUP],
            },
            Condition="AirflowIsOutside",
        )
        for role in (PUBLISHER, AIRFLOW)
    }
    return template(
        "Slipway: Pod Identity associations of its service accounts, and access entries for Airflow",
        {**associations, **entries},
        parameters={
            "ClusterName": CLUSTER_NAME,
            "Identity": one_of(
                "How pods get their role. IRSA needs no association: annotate the service accounts instead.",
                ("PodIdentity", "IRSA"),
                "PodIdentity",
            ),
            "AirflowRuns": one_of(
                f"Outside: the roles of Airflow get the group {GROUP} in the cluster. The chart gives it the rights.",
                ("Inside", "Outside"),
                "Inside",
            ),
            **NAMESPACES,
        },
        conditions={
            "ByPodIdentity": equals("Identity", "PodIdentity"),
            "AirflowIsOutside": equals("AirflowRuns", "Outside"),
        },
    )
