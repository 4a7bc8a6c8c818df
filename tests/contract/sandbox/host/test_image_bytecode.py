"""What an image's programs import was compiled when the image was built: to a pod the image is read-only."""

from __future__ import annotations

import json
import subprocess

import pytest

from slipway_sandbox.host.images import build_image, image_python

_LOOK = """
import importlib, json, pathlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
found = [one for one in sys.modules.values() if "site-packages" in (getattr(one, "__file__", None) or "")]
sources = [one for one in found if one.__file__.endswith(".py")]
missing = [one.__name__ for one in sources if not pathlib.Path(one.__cached__).exists()]
print(json.dumps([len(sources), missing]))
"""


@pytest.mark.parametrize(
    ("image", "modules"),
    [("onnx", ["numpy", "onnxruntime", "onnxslim"]), ("triton", ["numpy", "onnxruntime"])],
)
def test_nothing_is_compiled_at_a_pods_start(image: str, modules: list[str]) -> None:
    """Some seconds of each conversion, and of each start of a model on Triton."""
    build_image(image)
    look = subprocess.run(
        [image_python(image), "-B", "-c", _LOOK, *modules], capture_output=True, text=True, check=True
    )
    imported, not_compiled = json.loads(look.stdout)
    assert imported > 50
    assert not_compiled == []
