"""Release files that are minutes old: they reach workers some time after they were written."""

from __future__ import annotations

from pathlib import Path

from slipway_core.errors import TransientError
from slipway_core.identifiers import list_models
from slipway_rules.text_forms import MODEL_NAME_LIMIT, is_dns_label


def require_release_file(releases_dir: str, model: object) -> None:
    """Return where this worker has the model's release file, or where no file could have that name.

    :raises TransientError: it has none: whoever starts releases by itself tries again, so that no event is lost.
    """
    name = str(model)
    if not is_dns_label(name, MODEL_NAME_LIMIT) or name in list_models(Path(releases_dir)):
        return
    raise TransientError(
        f"the release waits for the release file of {name!r}",
        expected=f"a file {name}.yaml among the release files",
        found="none on this worker",
        remedy=f"it will be retried; add {name}.yaml, or find out why the file has not reached this worker",
    )
