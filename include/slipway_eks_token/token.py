"""A token for an EKS cluster: a request to STS, signed and not sent. The API server sends it, and sees who asks."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError
from botocore.session import Session
from botocore.signers import RequestSigner

PREFIX = "k8s-aws-v1."
CLUSTER_HEADER = "x-k8s-aws-id"
API_VERSION = "client.authentication.k8s.io/v1beta1"
LONGEST = timedelta(minutes=14)
"""EKS takes a token for a quarter of an hour after it was signed."""
# What EKS itself demands of the signed request.
_SIGNED_FOR_S = 60


class NoIdentityError(Exception):
    """There are no AWS credentials to sign with, or they could not be had; the message says what to do."""


@dataclass(frozen=True)
class Token:
    """A token, and until when a client should keep it. It is a secret, and so its text is not in `repr`."""

    text: str
    expires_at: datetime

    def __repr__(self) -> str:
        return f"Token(expires_at={self.expires_at!r})"

    def to_exec_credential(self) -> dict[str, Any]:
        """Return what a Kubernetes client wants of its exec plugin, ready for JSON."""
        return {
            "apiVersion": API_VERSION,
            "kind": "ExecCredential",
            "spec": {},
            "status": {
                "token": self.text,
                "expirationTimestamp": self.expires_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
            },
        }


def make_token(cluster: str, region: str, now: datetime, session: Session | None = None) -> Token:
    """Return a token for a cluster; nothing is sent to AWS but what the credentials themselves need.

    Credentials are those of botocore's default chain: the environment, IRSA (a web identity), EKS Pod Identity, the
    instance.

    :param cluster: its name in EKS.
    :param region: where it runs: EKS takes the regional endpoint of STS alone.
    :param now: UTC.
    :raises NoIdentityError: there is nothing to sign with.
    """
    session = session or Session()
    try:
        credentials = session.get_credentials()
        # The address is what EKS's API server will ask, whatever this process asks instead of STS.
        session.set_config_variable("sts_regional_endpoints", "regional")
        own = Config(ignore_configured_endpoint_urls=True)
        sts = session.create_client("sts", region_name=region, config=own)
    except BotoCoreError as error:
        raise NoIdentityError(f"the AWS credentials could not be had: {error}") from error
    if credentials is None:
        raise NoIdentityError(
            "no AWS credentials: give the pod a role (EKS Pod Identity, or IRSA by the annotation "
            "eks.amazonaws.com/role-arn of its service account)"
        )
    signer = RequestSigner(
        sts.meta.service_model.service_id,
        region,
        "sts",
        "v4",
        credentials,
        session.get_component("event_emitter"),
    )
    request = {
        "method": "GET",
        "url": f"{sts.meta.endpoint_url}/?Action=GetCallerIdentity&Version=2011-06-15",
        "body": {},
        "headers": {CLUSTER_HEADER: cluster},
        "context": {},
    }
    try:
        signed = signer.generate_presigned_url(
            request, region_name=region, expires_in=_SIGNED_FOR_S, operation_name=""
        )
    except BotoCoreError as error:
        raise NoIdentityError(f"the AWS credentials could not be had: {error}") from error
    text = base64.urlsafe_b64encode(signed.encode()).decode().rstrip("=")
    return Token(f"{PREFIX}{text}", now + LONGEST)
