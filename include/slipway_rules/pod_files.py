"""What a worker and a pod hand each other by name: files below a prefix, and an environment variable."""

from __future__ import annotations

RESULT_FILE = "result.json"
"""What a program has found, or its error; written last."""
SBOM_FILE = "sbom.json"
"""The packages of a converter's image, as CycloneDX."""
S3_ENCRYPTION_VARIABLE = "SLIPWAY_S3_ENCRYPTION"
"""How a pod's objects are encrypted: boto's arguments, as JSON."""


def is_model_file(name: str) -> bool:
    """Return whether a file below a model's folder is the model's: not hidden, not compiled, not a marker for a folder.

    A part `..` does not hide it: whoever takes the file refuses that.
    """
    return not any(
        not part or (part.startswith(".") and part != "..") or part == "__pycache__"
        for part in name.split("/")
    )
