"""The clocks of the object store, of the cluster and of Airflow, against this process's."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import ClassVar

from airflow.configuration import conf
from airflow.sdk.exceptions import AirflowNotFoundException

from slipway.doctor.examination import EXAMINATIONS, Examination
from slipway.doctor.installation import ANSWER_LIMIT_S, Installation
from slipway.hooks.s3_errors import translated
from slipway_core.doctor.clocks import clock_finding
from slipway_core.doctor.line import Line
from slipway_core.errors import SlipwayError


@EXAMINATIONS.register
class ClocksExamination(Examination):
    """Reads the Date of an answer of each server."""

    name: ClassVar[str] = "clocks"
    place: ClassVar[int] = 120
    why: ClassVar[str] = "S3 refuses what is signed at another time"

    def lines(self, installation: Installation) -> Iterator[Line]:
        """Yield a line for each clock."""
        yield self._compared("the object store", lambda: _of_store(installation))
        yield self._compared("Kubernetes", lambda: installation.cluster().server()[1])
        base_url = conf.get("api", "base_url", fallback="")
        if base_url:
            yield self._compared("Airflow", lambda: _of_airflow(base_url))
        else:
            yield self.skipped(
                "clock of Airflow", "[api] base_url is not set, so its API server is not known"
            )

    def _compared(self, name: str, ask: Callable[[], datetime | None]) -> Line:
        before = datetime.now(UTC)
        try:
            theirs = ask()
        except SlipwayError as error:
            return self.of_error(f"clock of {name}", error)
        except AirflowNotFoundException as error:
            return self.unknown(f"clock of {name}", str(error), remedy="slipway doctor --only connections")
        except OSError as error:
            return self.unknown(
                f"clock of {name}",
                f"it does not answer: {type(error).__name__}",
                remedy=f"see whether {name} runs",
            )
        return self.of_finding(clock_finding(name, theirs, before, datetime.now(UTC)))


def _of_store(installation: Installation) -> datetime | None:
    store = installation.store()
    with translated(store.uri(""), store.aws_conn_id):
        answer = store.client.list_objects_v2(Bucket=store.bucket, MaxKeys=1)
    return _date(answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date"))


def _of_airflow(base_url: str) -> datetime | None:
    url = f"{base_url.rstrip('/')}/api/v2/version"
    if not url.startswith(("http://", "https://")):
        return None
    try:
        with urllib.request.urlopen(url, timeout=ANSWER_LIMIT_S) as answer:
            return _date(answer.headers.get("Date"))
    except urllib.error.HTTPError as error:
        with error:
            return _date(error.headers.get("Date"))


def _date(text: str | None) -> datetime | None:
    try:
        found = parsedate_to_datetime(text or "")
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
