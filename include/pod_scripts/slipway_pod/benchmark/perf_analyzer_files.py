"""What perf_analyzer leaves behind: the profile export, with the time stamps of every request."""

from __future__ import annotations

import mmap
import re
from collections.abc import Sequence
from pathlib import Path

from slipway_pod.benchmark.figures import Quantiles, RoundFigures


def read_spans(export: Path) -> list[tuple[int, int]]:
    """Start and end of each request in ns, from perf_analyzer's profile export, not read whole into memory.

    The export holds every input and output as text: for images that comes to gigabytes. Inside a JSON string
    a quote is escaped, so these patterns cannot match in the contents of a tensor.
    """
    with export.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        starts = [int(found[1]) for found in re.finditer(rb'\{"timestamp":(\d+),', content)]
        answers = re.findall(rb'"response_timestamps":\[([\d,]*)\]', content)
    if len(starts) != len(answers):
        raise ValueError(f"{len(starts)} requests but {len(answers)} lists of answers in the profile export")
    return [
        (start, int(times.rsplit(b",", 1)[-1])) for start, times in zip(starts, answers, strict=True) if times
    ]


def figures_of_spans(spans: Sequence[tuple[int, int]]) -> RoundFigures:
    """Throughput over the time from the first request to the last answer, and latencies in ms."""
    seconds = (max(end for _, end in spans) - min(start for start, _ in spans)) / 1e9
    return RoundFigures(
        requests=len(spans),
        errors=0,
        throughput_rps=round(len(spans) / seconds, 3),
        latency=Quantiles.of([(end - start) / 1e6 for start, end in spans]),
    )
