"""Models that keep a state between requests: no release can split their users by percent.

All requests of a sequence must reach the same instance of the same version. A canary splits single requests, and so
would tear sequences apart: a version would be asked to go on with what another one has begun. As long as there is no
split that keeps a sequence on one version, such a model is refused, a first version too: there would be no second one.

An iterative sequence is one request that the model itself puts back into the queue; nothing of it can be torn apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from slipway_core.errors import ModelInvalidError

if TYPE_CHECKING:
    from slipway_core.spec.serving.serving import Serving

_WHY = (
    "requests of one sequence must all reach the same version, and a canary splits single requests by percent"
)
_REMEDY = (
    "Let requests carry their state, or keep it in a store that every version reads, and leave `sequence_batching` "
    "out; a model that needs it cannot be released here."
)
REFUSAL = f"`sequence_batching` cannot be released without `iterative: true`: {_WHY}. {_REMEDY}"


def keeps_state(config: Mapping[str, Any]) -> bool:
    """Return whether a model with this configuration (Triton's JSON form) keeps a state between requests."""
    sequences = config.get("sequence_batching")
    return sequences is not None and not sequences.get("iterative_sequence", False)


def require_no_sequences(configs: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise ModelInvalidError where one of the models keeps a state between requests.

    `configs` are the configurations of a version, an ensemble's members included, by the models' names.
    """
    found = [name for name, config in sorted(configs.items()) if keeps_state(config)]
    if found:
        raise ModelInvalidError(
            f"config.pbtxt of {', '.join(found)}: `sequence_batching` cannot be released",
            expected=f"a model without a state between requests, for {_WHY}",
            found="`sequence_batching`",
            remedy=_REMEDY,
        )


def as_released(config: Mapping[str, Any], serving: Serving) -> Mapping[str, Any]:
    """Return training's configuration as far as sequences go: without them where `serving` says `null`."""
    removed = "sequence_batching" in serving.model_fields_set and serving.sequence_batching is None
    return {key: value for key, value in config.items() if not (removed and key == "sequence_batching")}
