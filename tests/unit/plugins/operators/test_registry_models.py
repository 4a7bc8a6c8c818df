"""Which models are synced with a registry."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from slipway.failures import SET_ASIDE_KEY
from slipway.operators.registry.sync import ListRegistryModelsOperator


class Releases:
    """A folder with release files, and what a run says of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.xcoms: dict[str, Any] = {}

    def add(self, model: str, registered_model: str | None) -> None:
        """Write a release file."""
        section = (
            ""
            if registered_model is None
            else f"registry: {{mlflow: {{registered_model: {registered_model}}}}}"
        )
        (self.folder / f"{model}.yaml").write_text(f"model: {model}\nsource: {{format: onnx}}\n{section}\n")

    def listed(self, **params: Any) -> list[str]:
        """Run the operator."""
        context: Any = {
            "params": {"model": None, **params},
            "ti": SimpleNamespace(xcom_push=self.xcoms.__setitem__),
        }
        return ListRegistryModelsOperator(task_id="list", releases_dir=str(self.folder)).execute(context)


@pytest.fixture
def releases(tmp_path: Path) -> Releases:
    """Three models; two of them have a registry."""
    one = Releases(tmp_path)
    one.add("digits", "Digits")
    one.add("magika", "Magika")
    one.add("plain", None)
    return one


def test_all_that_have_a_registry(releases: Releases) -> None:
    """By their names; or the one that was asked for."""
    assert releases.listed() == ["digits", "magika"]
    assert releases.xcoms[SET_ASIDE_KEY] == []
    assert releases.listed(model="magika") == ["magika"]


@pytest.mark.parametrize("model", ["plain", "no-such-model", "../digits"])
def test_a_model_that_cannot_be_synced_is_an_error_where_it_was_asked_for(
    releases: Releases, model: str
) -> None:
    """It has no registry, or no release file."""
    with pytest.raises(AirflowFailException):
        releases.listed(model=model)


def test_an_unreadable_release_file_keeps_no_other_model_away(releases: Releases) -> None:
    """It is named."""
    (releases.folder / "digits.yaml").write_text("model: [")
    assert releases.listed() == ["magika"]
    (reason,) = releases.xcoms[SET_ASIDE_KEY]
    assert reason.startswith("digits: ")


def test_two_models_with_one_registered_model(releases: Releases) -> None:
    """Neither is synced: each would move the other's aliases."""
    releases.add("digits-eu", "Digits")
    assert releases.listed() == ["magika"]
    assert len(releases.xcoms[SET_ASIDE_KEY]) == 2
    with pytest.raises(AirflowFailException, match="another release file"):
        releases.listed(model="digits")


def test_a_parameter_that_there_is_not(releases: Releases) -> None:
    """It is named, not ignored."""
    with pytest.raises(AirflowFailException, match="modle"):
        releases.listed(modle="digits")
