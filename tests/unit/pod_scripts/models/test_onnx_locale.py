"""Text operators of a member, in an image without the `onnx` package: their locale is one that servers have."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from slipway_pod.errors import PodError
from slipway_pod.models.onnx_locale import use_portable_locale_in_file
from tests.support.pods.onnx_models import constant, model_of


def _lowering(locale: str | None) -> list[onnx.NodeProto]:
    named = {} if locale is None else {"locale": locale}
    return [
        helper.make_node("StringNormalizer", ["x"], ["y"], "lower", case_change_action="LOWER", **named),
        helper.make_node("Identity", ["weights"], ["kept"]),
    ]


def _model(nodes: list[onnx.NodeProto]) -> bytes:
    value = helper.make_tensor_value_info
    outputs = [value("y", TensorProto.STRING, ["n"]), value("kept", TensorProto.FLOAT, [3, 4])]
    return model_of(nodes, [value("x", TensorProto.STRING, ["n"])], outputs, [constant("weights", 3, 4)])


@pytest.mark.parametrize("locale", ["en_US", "de_DE.UTF-8", None], ids=["named", "other", "default"])
def test_a_locale_that_no_image_has_is_changed_and_nothing_else(tmp_path: Path, locale: str | None) -> None:
    """The model is the same but for the attribute, weights included, and ONNX Runtime loads it."""
    path = tmp_path / "model.onnx"
    path.write_bytes(_model(_lowering(locale)))
    before = onnx.load(path)
    (told,) = use_portable_locale_in_file(path, "text/1/model.onnx")
    assert "'lower' uses C.UTF-8" in told
    after = onnx.load(path)
    onnx.checker.check_model(after)
    assert (
        numpy_helper.to_array(after.graph.initializer[0])
        == numpy_helper.to_array(before.graph.initializer[0])
    ).all()
    assert [one.SerializeToString() for one in after.graph.output] == [
        one.SerializeToString() for one in before.graph.output
    ]
    found = {one.name: helper.get_attribute_value(one) for one in after.graph.node[0].attribute}
    assert found == {"case_change_action": b"LOWER", "locale": b"C.UTF-8"}
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert session.run(["y"], {"x": ["ÄB"]})[0].tolist() == ["äb"]


def test_a_locale_with_rules_of_its_own_is_refused(tmp_path: Path) -> None:
    """Turkish has another small I: no server of ours would lower a text as training did."""
    path = tmp_path / "model.onnx"
    path.write_bytes(_model(_lowering("tr_TR")))
    with pytest.raises(PodError, match="needs a locale that servers do not have") as refused:
        use_portable_locale_in_file(path, "text/1/model.onnx")
    assert refused.value.kind == "ModelInvalidError"


@pytest.mark.parametrize(
    "content",
    [b"", b"no model", b"StringNormalizer and no model", _model(_lowering("C"))],
    ids=["empty", "text", "named", "portable"],
)
def test_all_else_is_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    """What is no model is the server's to refuse; a portable locale is kept, byte for byte."""
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    assert use_portable_locale_in_file(path, "text/1/model.onnx") == []
    assert path.read_bytes() == content
