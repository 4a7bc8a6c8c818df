"""A router's statistics as Envoy shows them: users ask both revisions all the time, whoever looks.

    python -m tests.support.stalled.counters_program PORT

GET /become?errors=0.5&slow=1 changes what the candidate does from now on: the share of its answers that are errors, and
whether they take 50 ms instead of 5.
"""

from __future__ import annotations

import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

LOOPBACK = "127.0.0.1"
STABLE, CANDIDATE = "digits-predictor-00001", "digits-predictor-00002"
RATES_RPS = {STABLE: 80.0, CANDIDATE: 40.0}
_BOUNDS_MS = ("1", "5", "10", "50", "100", "+Inf")
_FAST, _SLOW = "10", "100"


class _Counters:
    """What each revision has answered until now."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._began = self._changed = time.time()
        self._errors = 0.0
        self._slow = 0.0
        self._share, self._is_slow = 0.0, False

    def become(self, errors: float, slow: bool) -> None:
        with self._lock:
            self._errors, self._slow = self._candidate(time.time())
            self._changed, self._share, self._is_slow = time.time(), errors, slow

    def _candidate(self, now: float) -> tuple[float, float]:
        answers = (now - self._changed) * RATES_RPS[CANDIDATE]
        return self._errors + answers * self._share, self._slow + answers * self._is_slow

    def text(self) -> str:
        with self._lock:
            now = time.time()
            errors, slow = (int(count) for count in self._candidate(now))
            lines = []
            for revision, rate in RATES_RPS.items():
                total = int((now - self._began) * rate)
                bad, late = (errors, slow) if revision == CANDIDATE else (0, 0)
                cluster = f'envoy_cluster_name="{revision}|http"'
                lines += [
                    "# TYPE envoy_cluster_upstream_rq counter",
                    f'envoy_cluster_upstream_rq{{envoy_response_code="200",{cluster}}} {total - bad}',
                    f'envoy_cluster_upstream_rq{{envoy_response_code="503",{cluster}}} {bad}',
                    "# TYPE envoy_cluster_upstream_rq_time histogram",
                ]
                for bound in _BOUNDS_MS:
                    below = {"1": 0, "5": 0, _FAST: total - late, "50": total - late}.get(bound, total)
                    lines.append(f'envoy_cluster_upstream_rq_time_bucket{{{cluster},le="{bound}"}} {below}')
            return "\n".join(lines) + "\n"


class _Handler(BaseHTTPRequestHandler):
    counters: ClassVar = _Counters()

    def do_GET(self) -> None:
        """Answers a scrape, or an order."""
        parts = urlsplit(self.path)
        if parts.path == "/become":
            asked = parse_qs(parts.query)
            self.counters.become(float(asked["errors"][0]), asked["slow"][0] == "1")
        body = self.counters.text().encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


if __name__ == "__main__":
    ThreadingHTTPServer((LOOPBACK, int(sys.argv[1])), _Handler).serve_forever()
