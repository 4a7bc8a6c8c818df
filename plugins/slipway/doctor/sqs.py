"""The intake queue's client, with the project's errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from slipway.doctor.installation import ANSWER_LIMIT_S, Installation
from slipway_core.errors import StoreUnavailableError, UserError

_MISSING = ("AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist")


def queue_client(aws_conn_id: str) -> Any:
    """Return the boto3 client of SQS; it does not wait for long."""
    from airflow.providers.amazon.aws.hooks.sqs import SqsHook

    limits = Config(
        connect_timeout=ANSWER_LIMIT_S,
        read_timeout=4 * ANSWER_LIMIT_S,
        retries={"total_max_attempts": 2, "mode": "standard"},
    )
    return SqsHook(aws_conn_id=aws_conn_id, config=limits).get_conn()


@contextmanager
def asked_queue(installation: Installation) -> Iterator[None]:
    """Raise the project's errors in place of boto's.

    :raises UserError: there is no such queue.
    :raises StoreUnavailableError: SQS refused for another reason, or did not answer.
    """
    try:
        yield
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))
        if any(name in code for name in _MISSING):
            raise UserError(
                "there is no such queue",
                found=code,
                remedy="create it: include/manifests/queue/README.md; or correct SLIPWAY_INTAKE_QUEUE_URL",
            ) from error
        raise StoreUnavailableError(
            "SQS refused a request",
            found=code,
            remedy=f"check the rights of the connection {installation.aws_conn_id!r}",
        ) from error
    except BotoCoreError as error:
        raise StoreUnavailableError(
            "SQS did not answer",
            found=type(error).__name__,
            remedy=f"check the endpoint and the credentials of the connection {installation.aws_conn_id!r}",
        ) from error
