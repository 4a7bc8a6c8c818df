"""What the tasks have in common that do what a person asks for in a DAG's form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import BaseOperator


class FormOperator(BaseOperator):
    """A task that reads the run's Params and a release file, and writes to the bucket.

    :param releases_dir: the folder with the release files.
    :param bucket: the bucket (templated).
    """

    template_fields: Sequence[str] = ("bucket",)

    def __init__(
        self, *, releases_dir: str, bucket: str, aws_conn_id: str = "aws_default", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.releases_dir = releases_dir
        self.bucket = bucket
        self.aws_conn_id = aws_conn_id
