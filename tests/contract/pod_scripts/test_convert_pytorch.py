"""convert_pytorch.py with the real torch of its image, over an S3 on loopback; skipped where it is not built."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.support.examples import nightly
from tests.support.pods.support import ObjectStore, Pod, PodRun

MODULE = ["--module", "net:Net", "--module-arguments", '{"hidden": 24}']


@pytest.fixture(scope="module")
def folder(pytorch_pod: Pod, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One network in several formats, with a golden set and what torch answers to it."""
    home = tmp_path_factory.mktemp("pytorch")
    pytorch_pod.train("pytorch.py", home)
    return home


@pytest.fixture(scope="module")
def sources(store: ObjectStore, folder: Path) -> str:
    return store.put_folder("pytorch", folder)


def convert(pod: Pod, sources: str, model: str, prefix: str, *more: str) -> PodRun:
    given = [
        "--source",
        f"{sources}/{model}",
        "--golden",
        f"{sources}/pixels.npz",
        "--outputs",
        "probabilities",
    ]
    return pod.run("convert_pytorch.py", *given, *more, prefix=prefix)


@pytest.mark.parametrize("model", [nightly("script.pt"), "free.pt2", "weights.pt"])
def test_good_model(
    pytorch_pod: Pod, store: ObjectStore, folder: Path, sources: str, prefix: str, model: str
) -> None:
    """Each format becomes ONNX with a free batch, and answers as torch does."""
    trusted = [] if model == "script.pt" else ["--trusted"]
    module = [*MODULE, "--module-file", f"{sources}/net.py"] if model == "weights.pt" else []
    run = convert(pytorch_pod, sources, model, prefix, *trusted, *module)
    assert run.exit_code == 0, run.stderr
    assert run.result is not None
    assert run.result["signature"] == {
        "inputs": [{"name": "pixels", "datatype": "FP32", "shape": [-1, 64]}],
        "outputs": [{"name": "probabilities", "datatype": "FP32", "shape": [-1, 10]}],
    }
    session = onnxruntime.InferenceSession(store.read(f"{prefix}/model.onnx"))
    (found,) = session.run(None, {"pixels": np.load(folder / "pixels.npz")["pixels"]})
    np.testing.assert_allclose(found, np.load(folder / "answers.npy"), rtol=1e-4, atol=1e-6)


def test_int8(pytorch_pod: Pod, store: ObjectStore, sources: str, prefix: str) -> None:
    """A module can be quantised in the same run; it is held against torch's forward, not against the ONNX."""
    more = ["--precision", "int8", "--parity-measure", "cosine", "--cosine-min", "0.99"]
    run = convert(pytorch_pod, sources, "script.pt", prefix, *more)
    assert run.exit_code == 0, run.stderr
    model = onnx.load_from_string(store.read(f"{prefix}/model.onnx"))
    assert "MatMulInteger" in {node.op_type for node in model.graph.node}


@pytest.mark.parametrize("model", ["free.pt2", "weights.pt"])
def test_code_without_trust(pytorch_pod: Pod, sources: str, prefix: str, model: str) -> None:
    """A format whose loading runs code is not touched unless it is called trusted, and the error says why."""
    module = [*MODULE, "--module-file", f"{sources}/net.py"] if model == "weights.pt" else []
    run = convert(pytorch_pod, sources, model, prefix, *module)
    assert (run.exit_code, run.error["kind"]) == (3, "UserError")
    assert "can run any code" in run.error["what"]


def test_batch_that_is_fixed(pytorch_pod: Pod, sources: str, prefix: str) -> None:
    """A program that was exported for one number of rows is refused: no server could batch it."""
    run = convert(pytorch_pod, sources, "fixed.pt2", prefix, "--trusted")
    assert (run.exit_code, run.error["kind"]) == (3, "ModelInvalidError")
    assert run.error["found"] == "pixels: [2, 64]"
