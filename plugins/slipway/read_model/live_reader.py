"""The live document of a canary, read."""

from __future__ import annotations

import logging

from slipway.hooks.s3_store import ModelStoreHook
from slipway_core.bucket_layout import live_key
from slipway_core.errors import TransientError, UserError
from slipway_core.read_model.live import LiveDocument

log = logging.getLogger(__name__)


def read_live(store: ModelStoreHook, model: str) -> LiveDocument | None:
    """Return the live document of a model's canary; None where there is none, or none that can be read.

    :raises TransientError: the store does not answer.
    """
    try:
        content = store.read(live_key(model), most_bytes=LiveDocument.limit_bytes)
        document = None if content is None else LiveDocument.from_bytes(content, live_key(model))
    except TransientError:
        raise
    except UserError as error:
        log.info("a live document is not shown: %s", error)
        return None
    return document if document is not None and document.model == model else None
