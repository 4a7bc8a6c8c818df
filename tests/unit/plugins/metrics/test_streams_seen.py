from __future__ import annotations

import pytest

from slipway.metrics.streams_seen import streams_counted

PAGE = """\
# TYPE envoy_vhost_vcluster_upstream_rq_total counter
envoy_vhost_vcluster_upstream_rq_total{envoy_virtual_host="models/digits",envoy_virtual_cluster="streams"} 3
envoy_vhost_vcluster_upstream_rq_total{envoy_virtual_host="models/digits/prev",envoy_virtual_cluster="streams"} 50
envoy_vhost_vcluster_upstream_rq_total{envoy_virtual_host="models/digits-2",envoy_virtual_cluster="streams"} 7
"""


def test_the_streams_of_one_service_are_counted_over_all_routers() -> None:
    """What is asked at a revision's own URL, or of another service, does not count."""
    assert streams_counted([PAGE, PAGE], "models", "digits") == 6
    assert streams_counted([""], "models", "digits") == 0


def test_a_page_that_is_none_is_an_error() -> None:
    """It is not "no streams"."""
    with pytest.raises(ValueError, match="could not convert"):
        streams_counted([PAGE.replace(" 3\n", " three\n")], "models", "digits")
