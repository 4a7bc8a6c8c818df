"""Locales that a text operator may name: which every server has, which can be replaced, which cannot."""

from __future__ import annotations

from typing import Any

import pytest
from onnx import TensorProto, helper

from slipway_rules.onnx_models import has_own_rules, normalizers, special_locale


@pytest.mark.parametrize(
    ("locale", "own"),
    [
        ("en_US", False),
        ("de-DE", False),
        ("de_DE@euro", False),
        ("tr_TR", True),
        ("az", True),
        ("crh_UA", True),
        ("ku_TR.UTF-8", True),
        ("x", True),
        ("english", True),
        ("..", True),
        ("", True),
    ],
    ids=ascii,
)
def test_a_locale_with_rules_of_its_own(locale: str, own: bool) -> None:
    """Turkic languages have another small I; what cannot be read is not taken for anything."""
    assert has_own_rules(locale) is own


@pytest.mark.parametrize(
    ("attributes", "locale"),
    [
        ({"case_change_action": "LOWER"}, "en_US"),
        ({"case_change_action": "LOWER", "locale": "de_DE"}, "de_DE"),
        ({"case_change_action": "LOWER", "locale": "C.UTF-8"}, None),
        ({"is_case_sensitive": 1, "locale": "de_DE"}, None),
        ({"is_case_sensitive": 0, "locale": "de_DE"}, "de_DE"),
        ({}, "en_US"),
    ],
    ids=["default", "named", "everywhere", "no case", "case for stop words", "nothing said"],
)
def test_the_locale_that_an_operator_needs(attributes: dict[str, Any], locale: str | None) -> None:
    """ONNX's default is en_US, which images do not have; an operator that changes no case needs none."""
    node = helper.make_node("StringNormalizer", ["x"], ["y"], **attributes)
    assert special_locale(node) == locale


def test_inner_graphs_are_searched_too() -> None:
    """A text operator in the branch of a condition is found."""
    text = helper.make_tensor_value_info("y", TensorProto.STRING, ["n"])
    inner = helper.make_graph([helper.make_node("StringNormalizer", ["x"], ["y"], "inner")], "g", [], [text])
    nodes = [
        helper.make_node("If", ["c"], ["z"], then_branch=inner, else_branch=inner),
        helper.make_node("StringNormalizer", ["x"], ["w"], "outer"),
    ]
    values = [helper.make_tensor_value_info("x", TensorProto.STRING, ["n"])]
    model = helper.make_model(helper.make_graph(nodes, "m", values, [text]))
    assert [node.name for node in normalizers(model)] == ["inner", "inner", "outer"]
