"""What the versions of a simulated InferenceService are called, and how a person names one of them."""

from __future__ import annotations

from typing import Any

V1, V2, V3, V4 = (f"s3://b/v{version}" for version in (1, 2, 3, 4))


def naming(uri: str | None = None, **others: Any) -> dict[str, Any]:
    """Return what `kubectl apply` changes where a manifest names a version: what it does not hold stays as it is.

    :param uri: the version's storageUri; None: it is left as it is.
    :param others: other fields of the predictor; None removes one.
    """
    predictor = {**others, **({} if uri is None else {"model": {"storageUri": uri}})}
    return {"metadata": {}, "spec": {"predictor": predictor}}
