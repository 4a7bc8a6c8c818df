"""Prints a token as the exec plugin of a Kubernetes client, or the Airflow connection that makes clients ask for one.

python -m slipway_eks_token --cluster-name NAME --region REGION [--connection [--namespace NAME] [--python PROGRAM]]
"""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime

from botocore.exceptions import BotoCoreError, ClientError
from botocore.session import Session

from slipway_eks_token.connection import connection_of
from slipway_eks_token.token import NoIdentityError, make_token


def main(arguments: list[str] | None = None) -> int:
    """Print what was asked for; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m slipway_eks_token", description=__doc__)
    parser.add_argument("--cluster-name", required=True, help="the cluster's name in EKS")
    parser.add_argument("--region", required=True, help="the region in which it runs")
    parser.add_argument(
        "--connection", action="store_true", help="print the value of AIRFLOW_CONN_KUBERNETES_DEFAULT"
    )
    parser.add_argument("--namespace", default="default", help="of the pods (with --connection)")
    parser.add_argument("--python", default="python", help="the worker's program (with --connection)")
    given = parser.parse_args(arguments)
    try:
        if given.connection:
            shown = _connection(given.cluster_name, given.region, given.namespace, given.python)
        else:
            shown = make_token(given.cluster_name, given.region, datetime.now(UTC)).to_exec_credential()
    except (NoIdentityError, BotoCoreError, ClientError) as error:
        print(
            f"no access to the EKS cluster {given.cluster_name!r} in {given.region}: {error}", file=sys.stderr
        )
        return 1
    print(json.dumps(shown))
    return 0


def _connection(cluster: str, region: str, namespace: str, python: str) -> dict[str, object]:
    found = Session().create_client("eks", region_name=region).describe_cluster(name=cluster)["cluster"]
    return connection_of(
        cluster,
        region,
        endpoint=found["endpoint"],
        authority=found["certificateAuthority"]["data"],
        namespace=namespace,
        python=python,
    )


if __name__ == "__main__":
    sys.exit(main())
