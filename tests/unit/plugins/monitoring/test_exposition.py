"""The texts that Prometheus and node_exporter read, read again by the client library's own parsers."""

from __future__ import annotations

from pathlib import Path

from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from slipway.monitoring.exposition import exposed, write_textfile
from slipway_core.monitoring.families import FAMILIES
from slipway_core.monitoring.samples import samples
from tests.support.monitoring.seen import every_metric

OPENMETRICS = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3"


def test_openmetrics_where_it_is_asked_for() -> None:
    """Each family with its kind, its help and its unit, and each sample as it was."""
    content, content_type = exposed(samples(every_metric()), OPENMETRICS)
    assert content_type.startswith("application/openmetrics-text")
    assert content.endswith(b"# EOF\n")
    found = {family.name: family for family in read_openmetrics(content.decode())}
    assert len(found) == len(FAMILIES)
    for family in FAMILIES:
        read = found[family.name.removesuffix("_total")]
        assert (read.type, read.documentation) == (family.kind, family.help_text)
        assert family.name.endswith(read.unit)
    told = {
        (one.name, frozenset(one.labels.items()), one.value)
        for read in found.values()
        for one in read.samples
    }
    expected = {
        (one.family.name, frozenset(one.labels.items()), one.value) for one in samples(every_metric())
    }
    assert told == expected


def test_the_older_text_for_everybody_else() -> None:
    """A person with curl, and node_exporter, read this one."""
    content, content_type = exposed(samples(every_metric()), "*/*")
    assert content_type.startswith("text/plain; version=0.0.4")
    read = {one.name for family in read_text(content.decode()) for one in family.samples}
    assert read == {family.name for family in FAMILIES}


def test_a_text_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    """Nothing else stays in the folder, which node_exporter reads at any moment."""
    path = tmp_path / "slipway.prom"
    path.write_text("half a li")
    write_textfile(path, samples(every_metric()))
    assert path.read_bytes() == exposed(samples(every_metric()), "")[0]
    assert list(tmp_path.iterdir()) == [path]
