"""S3 on loopback with versions of the model `table`: one that doubles, one that trebles, one that does not load."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import boto3

from tests.support.serving.models import table_model, write_repository
from tests.support.store.moto_server import moto_server

GOOD, BETTER, BROKEN = (
    "s3://slipway/models/table/1",
    "s3://slipway/models/table/2",
    "s3://slipway/models/table/3",
)
MORE = "dynamic_batching { }"


@contextmanager
def published_versions(folder: Path) -> Iterator[dict[str, str]]:
    """Serve them while the context lasts; yields the AWS_* environment that reads them."""
    with moto_server() as endpoint:
        environment = {
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": endpoint,
        }
        client = boto3.client(
            "s3",
            endpoint_url=environment["AWS_ENDPOINT_URL"],
            aws_access_key_id="test",
            aws_secret_access_key="test",
            region_name="us-east-1",
        )
        client.create_bucket(Bucket="slipway")
        for uri, content in ((GOOD, table_model(2.0)), (BETTER, table_model(3.0)), (BROKEN, b"no model")):
            prefix = uri.removeprefix("s3://slipway/")
            root = write_repository(folder / prefix, versions={1: content}, more=MORE)
            for path in (one for one in root.rglob("*") if one.is_file()):
                client.upload_file(str(path), "slipway", f"{prefix}/{path.relative_to(root)}")
        yield environment
