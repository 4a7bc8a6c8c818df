"""Writes the numbers of releases to a file, for node_exporter's textfile collector; or prints them.

    python -m slipway.monitoring [--textfile /var/lib/node_exporter/slipway.prom] [--bucket NAME]

It reads the bucket alone, and needs no Airflow that runs (`PYTHONPATH=plugins:include`). The file is replaced as a
whole. Exit codes: 0 it is written; 2 it is not, and is what it was before: a line says why.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from airflow.sdk import Variable

from slipway.hooks.s3_store import ModelStoreHook
from slipway.monitoring.exposition import exposed, write_textfile
from slipway.monitoring.reading import seen_in
from slipway_core.errors import SlipwayError, UserError
from slipway_core.monitoring.samples import samples

BUCKET_VARIABLE = "slipway_bucket"
ANSWER_LIMIT_S = 10.0
"""Of one request to the store."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m slipway.monitoring",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--textfile", type=Path, help="file to write them to (default: standard output)")
    parser.add_argument("--bucket", help=f"default: the Airflow variable {BUCKET_VARIABLE}")
    parser.add_argument("--aws-conn-id", default="aws_default", help="default: %(default)s")
    options = parser.parse_args(argv)
    try:
        _require_prom(options.textfile)
        bucket = options.bucket or Variable.get(BUCKET_VARIABLE)
        store = ModelStoreHook(bucket, options.aws_conn_id, answer_limit_s=ANSWER_LIMIT_S)
        found = list(samples(seen_in(store)))
        if options.textfile is None:
            print(exposed(found, "")[0].decode(), end="")
        else:
            write_textfile(options.textfile, found)
    except (SlipwayError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _require_prom(path: Path | None) -> None:
    """node_exporter reads no other file.

    :raises UserError: the name has another ending.
    """
    if path is not None and path.suffix != ".prom":
        raise UserError(
            f"{path} would not be read",
            expected="a file whose name ends with .prom",
            found=path.name,
            remedy="rename it, in the folder of node_exporter's --collector.textfile.directory",
        )


if __name__ == "__main__":
    sys.exit(main())
