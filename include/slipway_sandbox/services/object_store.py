"""S3 and SQS on loopback: moto's server, with the bucket, the queue, and the notification between them.

    python -m slipway_sandbox.services.object_store

Everything is kept in memory: the object store's content ends with the process.
"""

from __future__ import annotations

import argparse
import functools
import logging
import signal
import sys
import threading
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from slipway_sandbox.host.ports import LOOPBACK
from slipway_sandbox.host.settings import REGION, SandboxSettings, SettingsError, sandbox_root

log = logging.getLogger("slipway.object_store")

INCOMING_PREFIX = "incoming/"
READY_SUFFIX = "ready.json"
# A message that a reader took and lost comes back after this time.
VISIBILITY_TIMEOUT_S = 60

_WRITES = threading.Lock()


def client(settings: SandboxSettings, service: str) -> Any:
    """Return a boto3 client of the sandbox's object store (`s3`) or queue (`sqs`)."""
    import boto3

    return boto3.client(
        service,
        endpoint_url=settings.object_store_url,
        region_name=REGION,
        aws_access_key_id=settings.access_key,
        aws_secret_access_key=settings.secrets.object_store_secret,
    )


def create_places(settings: SandboxSettings) -> None:
    """Create bucket and queue, and tell the bucket to announce each `incoming/…/ready.json` there.

    May be repeated.
    """
    s3, sqs = client(settings, "s3"), client(settings, "sqs")
    s3.create_bucket(Bucket=settings.bucket)
    # Triton does not start on a repository that does not exist, and in S3 a folder exists when something is
    # in it.
    s3.put_object(Bucket=settings.bucket, Key="staging/.keep", Body=b"")
    queue_url = sqs.create_queue(
        QueueName=settings.queue, Attributes={"VisibilityTimeout": str(VISIBILITY_TIMEOUT_S)}
    )["QueueUrl"]
    queue_arn = sqs.get_queue_attributes(QueueUrl=queue_url, AttributeNames=["QueueArn"])["Attributes"][
        "QueueArn"
    ]
    rules = [{"Name": "prefix", "Value": INCOMING_PREFIX}, {"Name": "suffix", "Value": READY_SUFFIX}]
    s3.put_bucket_notification_configuration(
        Bucket=settings.bucket,
        NotificationConfiguration={
            "QueueConfigurations": [
                {
                    "QueueArn": queue_arn,
                    "Events": ["s3:ObjectCreated:*"],
                    "Filter": {"Key": {"FilterRules": rules}},
                }
            ]
        },
    )


def is_ready(settings: SandboxSettings, timeout_s: float = 2.0) -> bool:
    """Return whether the server answers and its places exist: the bucket's notification is the last thing made."""
    try:
        with urlopen(f"{settings.object_store_url}/moto-api/", timeout=timeout_s):
            pass
        s3 = client(settings, "s3")
        return "QueueConfigurations" in s3.get_bucket_notification_configuration(Bucket=settings.bucket)
    except (URLError, OSError):
        return False
    except Exception as error:
        # botocore makes its exception classes at run time: a bucket that does not exist yet is one of them.
        if error.__class__.__name__ in (
            "NoSuchBucket",
            "ClientError",
            "EndpointConnectionError",
            "ConnectionClosedError",
        ):
            return False
        raise


def make_conditional_writes_atomic() -> None:
    """Let moto take one write at a time, and look at a copy's If-None-Match, which S3 does and moto does not.

    It looks at If-None-Match and If-Match and then writes, each request in a separate thread, so that two writers
    can both get the answer that theirs was first, which S3 never gives.
    """
    from moto.s3.exceptions import PreconditionFailed
    from moto.s3.responses import S3Response

    put_object, copy_object = S3Response.put_object, S3Response.copy_object
    delete_object = S3Response.delete_object

    @functools.wraps(put_object)
    def put_one_at_a_time(response: S3Response) -> Any:
        with _WRITES:
            return put_object(response)

    @functools.wraps(copy_object)
    def copy_one_at_a_time(response: S3Response) -> Any:
        with _WRITES:
            there = response.backend.get_object(response.bucket_name, response.parse_key_name())
            if response.headers.get("If-None-Match") == "*" and there is not None:
                raise PreconditionFailed("If-None-Match")
            return copy_object(response)

    @functools.wraps(delete_object)
    def delete_one_at_a_time(response: S3Response) -> Any:
        with _WRITES:
            return delete_object(response)

    if not hasattr(put_object, "__wrapped__"):
        S3Response.put_object = put_one_at_a_time  # type: ignore[assignment, method-assign]
        S3Response.copy_object = copy_one_at_a_time  # type: ignore[assignment, method-assign]
        S3Response.delete_object = delete_one_at_a_time  # type: ignore[assignment, method-assign]


def answer_cheaply() -> None:
    """Spare moto's server what costs a third of a request's computing: it lists its folders to name the service,
    twice, and writes a line of log, which would be most of the log. For each answer that is an error it makes a table
    of all errors of the service again."""
    from moto.core import errors
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication

    find = DomainDispatcherApplication.get_backend_for_host
    if not hasattr(find, "cache_info"):
        DomainDispatcherApplication.get_backend_for_host = functools.lru_cache(maxsize=1000)(find)  # type: ignore[method-assign]
        errors.ErrorLookupFactory = functools.cache(errors.ErrorLookupFactory)  # type: ignore[assignment, misc]
    logging.getLogger("werkzeug").setLevel(logging.WARNING)


def serve(settings: SandboxSettings) -> None:
    """Serve until SIGTERM or SIGINT."""
    from moto.server import ThreadedMotoServer

    make_conditional_writes_atomic()
    answer_cheaply()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    server = ThreadedMotoServer(ip_address=LOOPBACK, port=settings.ports.object_store, verbose=False)
    server.start()
    create_places(settings)
    log.info(
        "The object store listens on %s; bucket %s, queue %s.",
        settings.object_store_url,
        settings.bucket,
        settings.queue,
    )
    stop.wait()
    server.stop()


def main(arguments: list[str] | None = None) -> int:
    """Run the program; return 0 after a clean stop, 2 when there is no sandbox to serve for."""
    argparse.ArgumentParser(
        prog="python -m slipway_sandbox.services.object_store", description=__doc__
    ).parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        serve(SandboxSettings.load(sandbox_root()))
    except SettingsError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
