"""How many requests wait in a model's queue, by the server's own metrics."""

from __future__ import annotations

from airflow_provider_triton.client.failures import NoAnswerError
from airflow_provider_triton.client.settings import TritonSettings

_SERIES = "nv_inference_pending_request_count"
_BYTES_LIMIT = 32 * 2**20


async def pending_requests(settings: TritonSettings, model: str, limit_s: float) -> int | None:
    """Return the requests to a model that wait for an instance, all versions together.

    Those that an instance works on are not among them: no number of Triton's shows these.

    :returns: None where the connection names no metrics port.
    :raises NoAnswerError: the metrics cannot be read.
    """
    if settings.metrics_address is None:
        return None
    import aiohttp
    from prometheus_client.parser import text_string_to_metric_families

    limits = aiohttp.ClientTimeout(total=limit_s, sock_connect=settings.connect_timeout_s)
    try:
        # Without the token and the headers: the metrics' port is plain HTTP.
        async with (
            aiohttp.ClientSession(timeout=limits, cookie_jar=aiohttp.DummyCookieJar()) as session,
            session.get(f"http://{settings.metrics_address}/metrics", allow_redirects=False) as answer,
        ):
            text = (await answer.content.read(_BYTES_LIMIT)).decode(errors="replace")
            if answer.status != 200:
                raise NoAnswerError(f"HTTP {answer.status} of the metrics at {settings.metrics_address}")
        families = list(text_string_to_metric_families(text))
    except (aiohttp.ClientError, OSError, ValueError) as error:
        found = f"the metrics at {settings.metrics_address}: {type(error).__name__}: {error}"
        raise NoAnswerError(found) from error
    samples = (sample for family in families for sample in family.samples if sample.name == _SERIES)
    return int(sum(sample.value for sample in samples if sample.labels.get("model") == model))
