"""Which server-side encryption a connection asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from slipway_core.errors import UserError
from slipway_core.spec.release_file import Encryption

_NAMES = {
    "algorithm": "server_side_encryption",
    "kms_key_id": "sse_kms_key_id",
    "bucket_key": "bucket_key_enabled",
}


def encryption_of(extra: Mapping[str, Any], aws_conn_id: str) -> Encryption | None:
    """Return the encryption that a connection asks for; None: it asks for none.

    :param extra: what the connection's extra has under `service_config.s3`.
    :param aws_conn_id: its name, for the error.
    :raises UserError: it asks for one that there is not.
    """
    asked = {field: extra[name] for field, name in _NAMES.items() if name in extra}
    if not asked:
        return None
    try:
        return Encryption.model_validate(asked)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = "".join(_NAMES[str(part)] for part in first["loc"]) or ", ".join(_NAMES.values())
        raise UserError(
            f"the encryption settings of the connection {aws_conn_id!r} are invalid",
            expected="under `service_config.s3`: `server_side_encryption` of AES256, aws:kms or aws:kms:dsse, and "
            "for the latter two, if wanted, `sse_kms_key_id` and `bucket_key_enabled`",
            found=f"{place}: {first['msg']}",
            remedy="correct the connection's extra",
        ) from error
