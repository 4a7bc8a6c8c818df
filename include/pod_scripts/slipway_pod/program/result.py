"""The end of every program: it writes `result.json`, also after a failure, as long as S3 answers."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from slipway_pod.errors import PodError, unexpected
from slipway_pod.program.keys import hide_from_others
from slipway_pod.program.progress import say
from slipway_pod.storage.s3 import Store
from slipway_rules.pod_files import RESULT_FILE

REFUSED = 4


def run_to_result(
    destination: str,
    work: Callable[[Store, dict[str, Any]], None],
    *,
    tools: Callable[[], Mapping[str, str]],
    subject: str = "converter",
    done: str = "pass",
    last: Callable[[Store, str, dict[str, Any]], None] | None = None,
) -> int:
    """Run `work`, which fills in the result as it goes; write the result; return the exit code.

    The result has `outcome` (`done`, `refused` or `error`), `error`, what `work` filled in, `inputs` (what was read),
    `tools` (versions) and `seconds`. `last` is called before it is written, also after a failure, unless S3 does not
    answer: converters add their list of software there.
    """
    signal.signal(signal.SIGTERM, stop)
    started = time.monotonic()
    result: dict[str, Any] = {}
    store: Store | None = None
    failure: PodError | None = None

    def seconds() -> float:
        return round(time.monotonic() - started, 3)

    try:
        store = Store()
        # A result of an earlier attempt must never be taken for this one's.
        store.delete(f"{destination}/{RESULT_FILE}")
        hide_from_others()
        work(store, result)
    except PodError as error:
        failure = error
    except Exception as error:  # whatever it is, the result must report it
        failure = unexpected(error, subject)
    if last is not None and store is not None and _answers(failure):
        try:
            last(store, destination, result)
        except PodError as error:
            failure = failure or error
    if store is not None and _answers(failure):
        outcome = done if failure is None else "refused" if failure.exit_code == REFUSED else "error"
        head = {"outcome": outcome, "error": failure.to_json() if failure else None}
        try:
            about = {"inputs": store.inputs, "tools": dict(tools()), "seconds": seconds()}
            document = {**head, **result, **about}
            store.write_json(document, f"{destination}/{RESULT_FILE}")
        except PodError as error:
            failure = failure or error
    if failure is not None:
        print(f"error: {failure}", file=sys.stderr, flush=True)
        return failure.exit_code
    say("done", f"{seconds()} s")
    return 0


def _answers(failure: PodError | None) -> bool:
    """Return whether S3 has answered so far."""
    return failure is None or failure.kind != "StoreUnavailableError"


def stop(number: int, _: object) -> None:
    """End the program through every `finally`, so that what it started ends too; no result is written."""
    raise SystemExit(128 + number)
