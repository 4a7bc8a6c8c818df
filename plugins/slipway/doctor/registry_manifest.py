"""Whether a registry has an image, asked without credentials: the account of Airflow may read no pull secret."""

from __future__ import annotations

import asyncio
import json
import re
from urllib.parse import urlsplit

import aiohttp

from slipway.doctor.installation import ANSWER_LIMIT_S
from slipway_core.doctor.images import ImageName

_ACCEPTED = ", ".join(
    f"application/vnd.{kind}+json"
    for kind in (
        "oci.image.index.v1",
        "oci.image.manifest.v1",
        "docker.distribution.manifest.list.v2",
        "docker.distribution.manifest.v2",
    )
)
_CHALLENGE = re.compile(r'(realm|service|scope)="([^"]*)"')
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_TOKEN_BYTES = 64 << 10


def manifest_status(image: ImageName) -> int | str:
    """Return the HTTP status of a HEAD of the image's manifest, or in words why there is none."""
    return asyncio.run(_status(image))


async def _status(image: ImageName) -> int | str:
    host = urlsplit(f"//{image.registry}").hostname or ""
    scheme = "http" if host in _LOOPBACK else "https"
    url = f"{scheme}://{image.registry}/v2/{image.repository}/manifests/{image.reference}"
    limit = aiohttp.ClientTimeout(total=ANSWER_LIMIT_S)
    try:
        async with aiohttp.ClientSession(timeout=limit) as session:
            status, challenge = await _head(session, url, "")
            if status == 401 and challenge.lower().startswith("bearer "):
                token = await _anonymous_token(session, challenge)
                if token:
                    status, _ = await _head(session, url, token)
            return status
    except TimeoutError:
        return f"no answer within {ANSWER_LIMIT_S:g} s"
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return f"no answer: {type(error).__name__}"


async def _head(session: aiohttp.ClientSession, url: str, token: str) -> tuple[int, str]:
    headers = {"Accept": _ACCEPTED, **({"Authorization": f"Bearer {token}"} if token else {})}
    async with session.head(url, headers=headers, allow_redirects=True) as answer:
        return answer.status, answer.headers.get("WWW-Authenticate", "")


async def _anonymous_token(session: aiohttp.ClientSession, challenge: str) -> str:
    """Return the token that a registry gives anybody for what is public; "" where it gives none."""
    parts = dict(_CHALLENGE.findall(challenge))
    realm = parts.pop("realm", "")
    if urlsplit(realm).scheme not in ("http", "https"):
        return ""
    async with session.get(realm, params=parts) as answer:
        if answer.status != 200:
            return ""
        found = json.loads(await answer.content.read(_TOKEN_BYTES))
    token = found.get("token") or found.get("access_token") if isinstance(found, dict) else ""
    return token if isinstance(token, str) else ""
