"""The private folder of tritonserver that tests start servers from."""

from __future__ import annotations

from functools import cache

from slipway_sandbox.host.images import build_image
from slipway_sandbox.services.triton import TritonInstall


@cache
def triton_install() -> TritonInstall:
    """Return the server's folder over the environment of the image `triton`, wherever the images lie."""
    return TritonInstall.prepare(venv=build_image("triton"))
