"""Whether users ask an InferenceService over streams, as an Envoy with a virtual cluster for them counts it.

A virtual host that is called after the InferenceService, `NAMESPACE/NAME`, has a virtual cluster `streams` for the
paths of Triton's two streaming calls (`include/slipway_sandbox/services/envoy_config.py`). What is asked at a
revision's own URL has a virtual host of its own. What stands in the streams, no counter shows.
"""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.parser import text_string_to_metric_families

FILTER = r"^vhost\..*\.vcluster\.streams\.upstream_rq_total$"
_SERIES = "envoy_vhost_vcluster_upstream_rq_total"


def streams_counted(pages: Iterable[str], namespace: str, inference_service: str) -> int:
    """Return how many streams users have begun, in all of the routers' exposition pages.

    :raises ValueError: a page is invalid.
    """
    host = f"{namespace}/{inference_service}"
    return sum(
        int(sample.value)
        for page in pages
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name == _SERIES and sample.labels.get("envoy_virtual_host") == host
    )
