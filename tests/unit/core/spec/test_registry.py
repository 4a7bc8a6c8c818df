"""The release file's `registry`."""

from __future__ import annotations

import pytest

from slipway_core.errors import SpecError
from slipway_core.spec.registry import MlflowModel
from slipway_core.spec.release_file import parse_release_spec

HEAD = "model: digits\nsource: {format: onnx}\n"


def mlflow(text: str) -> MlflowModel:
    """Read the section."""
    spec = parse_release_spec(f"{HEAD}registry: {{mlflow: {text}}}\n", "digits.yaml")
    assert spec.registry is not None
    return spec.registry.mlflow


def test_without_the_section_there_is_no_registry() -> None:
    """Nothing is asked and nothing is told."""
    assert parse_release_spec(HEAD, "digits.yaml").registry is None


def test_a_name_is_enough() -> None:
    """The alias is `candidate`, and artifacts come from MLflow's server alone."""
    found = mlflow("{registered_model: Digits of the team}")
    assert (found.registered_model, found.alias, found.artifact_roots) == (
        "Digits of the team",
        "candidate",
        (),
    )
    assert found.size_limit_mib == 10 * 1024


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "{registered_model: ''}",
        "{registered_model: 'a/b'}",
        "{registered_model: 'models:/a'}",
        '{registered_model: "a\'b"}',
        "{registered_model: ' a'}",
        "{registered_model: a, alias: live}",
        "{registered_model: a, alias: previous}",
        "{registered_model: a, alias: Latest}",
        "{registered_model: a, alias: v12}",
        "{registered_model: a, alias: a b}",
        "{registered_model: a, artifact_roots: ['s3://bucket']}",
        "{registered_model: a, artifact_roots: ['s3://bucket/a']}",
        "{registered_model: a, artifact_roots: ['s3://bucket/a/../b/']}",
        "{registered_model: a, artifact_roots: ['file:///']}",
        "{registered_model: a, run_files: {../a: b}}",
        "{registered_model: a, run_files: {a: ../b}}",
        "{registered_model: a, size_limit_mib: 0}",
        "{registered_model: a, unknown: 1}",
    ],
)
def test_what_the_section_may_not_say(text: str) -> None:
    """Names that MLflow refuses or that end a filter, aliases that Slipway sets, places that are no folders of S3."""
    with pytest.raises(SpecError):
        mlflow(text)


def test_roots_and_further_files() -> None:
    """A whole bucket, or a folder in it; files under other names."""
    found = mlflow(
        "{registered_model: a, artifact_roots: ['s3://mlflow/'], run_files: {golden.npz: eval/g.npz}}"
    )
    assert found.artifact_roots == ("s3://mlflow/",)
    assert found.run_files == {"golden.npz": "eval/g.npz"}
