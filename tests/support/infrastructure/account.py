"""An emulated AWS account with stacks of this project's own templates, and clients with the rights of its roles."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import boto3
from botocore.exceptions import ClientError
from moto.core import DEFAULT_ACCOUNT_ID
from moto.iam.models import iam_backends

from slipway_infrastructure.stacks import STACKS

REGION = "us-east-1"
REFUSED = ("AccessDenied", "AccessDeniedException", "403")


def is_taken(act: Callable[[], Any]) -> bool:
    """Whether a request is carried out; what is refused for another reason than a missing right is an error."""
    try:
        act()
    except ClientError as error:
        if error.response["Error"]["Code"] not in REFUSED:
            raise
        return False
    return True


class Account:
    """An account of moto, inside of mock_aws; its owner may do everything."""

    def __init__(self) -> None:
        self._stacks: Any = self.client("cloudformation")
        self._sts: Any = self.client("sts")
        self.s3: Any = self.client("s3")
        self.sqs: Any = self.client("sqs")

    def client(self, service: str, **keys: str) -> Any:
        """Return a client of a service, with the owner's rights or those of some keys."""
        return boto3.client(service, region_name=REGION, **keys)

    def deploy(self, stack: str, **parameters: str) -> dict[str, str]:
        """Create a stack; return its outputs."""
        self._stacks.create_stack(
            StackName=stack,
            TemplateBody=json.dumps(STACKS[stack]()),
            Parameters=[
                {"ParameterKey": name, "ParameterValue": value} for name, value in parameters.items()
            ],
            Capabilities=["CAPABILITY_NAMED_IAM"],
        )
        (made,) = self._stacks.describe_stacks(StackName=stack)["Stacks"]
        assert made["StackStatus"] == "CREATE_COMPLETE"
        _write_inline_policies_as_texts()
        return {one["OutputKey"]: one["OutputValue"] for one in made.get("Outputs", [])}

    def as_role(self, name: str, service: str) -> Any:
        """Return a client of a service with the rights of a role."""
        arn = self.client("iam").get_role(RoleName=name)["Role"]["Arn"]
        keys = self._sts.assume_role(RoleArn=arn, RoleSessionName="task")["Credentials"]
        return self.client(
            service,
            aws_access_key_id=keys["AccessKeyId"],
            aws_secret_access_key=keys["SecretAccessKey"],
            aws_session_token=keys["SessionToken"],
        )


def _write_inline_policies_as_texts() -> None:
    """Let moto's enforcement read the policies of roles: it expects texts, and moto's CloudFormation keeps objects."""
    for role in iam_backends[DEFAULT_ACCOUNT_ID]["aws"].roles.values():
        for name, document in role.policies.items():
            if not isinstance(document, str):
                role.policies[name] = json.dumps(document)
