"""`target: sklearn`: a scikit-learn estimator, to ONNX."""

from __future__ import annotations

from typing import ClassVar, Literal

from slipway_core.spec.conversion.conversion import Uri, conversion_target
from slipway_core.spec.conversion.estimators import EstimatorSettings, Library
from slipway_core.spec.parts import Text


@conversion_target
class SklearnConversion(EstimatorSettings):
    """A scikit-learn estimator or pipeline, to ONNX."""

    source_formats: ClassVar[tuple[str, ...]] = ("sklearn",)
    library: ClassVar[Library] = "sklearn"
    target: Literal["sklearn"] = "sklearn"
    trusted_types: tuple[Text, ...] = ()
    """Types in a .skops file that skops does not trust by default, such as sklearn.tree._tree.Tree in forests."""

    def target_arguments(self, uri: Uri) -> list[str]:
        """Return what all estimators have, and the types that are trusted."""
        types = (argument for name in self.trusted_types for argument in ("--trusted-type", name))
        return [*super().target_arguments(uri), *types]
