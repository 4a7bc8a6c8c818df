"""One run of `find_new_versions` in a process of its own, as a task.

    python -m benchmarks.intake.process ENDPOINT BUCKET

Prints {"seconds", "requests": {…}, "started"} as its last line; with one message or more on its standard input, a line
each, it is a run that these have started, otherwise a sweep.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from types import SimpleNamespace
from typing import Any

from benchmarks.publishing.process import airflow


def main() -> None:
    """Do what the command line says."""
    endpoint, bucket = sys.argv[1:]
    messages = [{"Body": line} for line in sys.stdin.read().splitlines()]
    with airflow(endpoint):
        from botocore.httpsession import URLLib3Session

        from slipway.operators.intake.find import FindNewVersionsOperator

        counted: Counter[str] = Counter()
        send = URLLib3Session.send

        def count(session: URLLib3Session, request: Any) -> Any:
            counted["LIST" if "list-type" in request.url else request.method] += 1
            return send(session, request)

        URLLib3Session.send = count  # type: ignore[method-assign]
        event = SimpleNamespace(extra={"payload": {"message_batch": messages}})
        context: Any = {
            "triggering_asset_events": {"incoming_model_versions": [event]} if messages else {},
            "ti": SimpleNamespace(get_dr_count=lambda **_: 0, xcom_push=lambda *_: None),
        }
        began = time.monotonic()
        started = FindNewVersionsOperator(task_id="find_new_versions", bucket=bucket).execute(context)
        seconds = time.monotonic() - began
    print(json.dumps({"seconds": seconds, "requests": counted, "started": len(started)}))


if __name__ == "__main__":
    main()
