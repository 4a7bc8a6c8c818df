"""Prints what is asked of Prometheus about a revision, by a query set or by a release file.

python -m slipway_core.metrics --set istio --namespace models --revision digits-00002
python -m slipway_core.metrics --release include/releases/digits.yaml --revision …
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from slipway_core.errors import SpecError
from slipway_core.metrics.queries import QUERY_SETS, described, release_values
from slipway_core.metrics.sources.prometheus import DEFAULT_LOOKBACK_S, PrometheusMetrics
from slipway_core.spec.release_file import load_release_spec


def main(arguments: list[str] | None = None) -> int:
    """Print the queries of a set or of a release file; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m slipway_core.metrics.queries",
        description="Print the queries that Prometheus gets about a revision.",
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--set", choices=sorted(QUERY_SETS), help="a query set")
    which.add_argument("--release", type=Path, help="a release file")
    parser.add_argument("--revision", required=True, help="a revision's name, such as digits-predictor-00002")
    parser.add_argument("--namespace", default="models", help="with --set (default: %(default)s)")
    parser.add_argument("--inference-service", help="with --set (default: the revision, less its number)")
    parser.add_argument("--model", help="with --set (default: the InferenceService's name)")
    options = parser.parse_args(arguments)
    if options.release is None:
        service = options.inference_service or re.sub(r"(-predictor)?-\d+$", "", options.revision)
        values = {
            "inference_service": service,
            "model": options.model or service,
            "namespace": options.namespace,
            "revision": options.revision,
        }
        print(described(QUERY_SETS[options.set].filled(values), DEFAULT_LOOKBACK_S))
        return 0
    try:
        spec = load_release_spec(options.release)
    except SpecError as error:
        print(error, file=sys.stderr)
        return 1
    metrics = spec.rollout.metrics
    if not isinstance(metrics, PrometheusMetrics):
        print(f"{options.release}: `rollout.metrics.source` is `{metrics.source}`, which asks no queries")
        return 0
    filled = metrics.query_set().filled({**release_values(spec), "revision": options.revision})
    print(described(filled, metrics.lookback_s))
    return 0


if __name__ == "__main__":
    sys.exit(main())
