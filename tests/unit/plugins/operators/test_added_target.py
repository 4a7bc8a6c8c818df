"""A conversion target that another package adds: read from a release file, and started as a pod."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from slipway_core.spec.conversion.conversion import Conversion
from tests.support.other_package import ROOT, install, run_installed

MODULE = '''
from typing import ClassVar, Literal

from slipway_core.spec.conversion.conversion import Conversion, conversion_target


@conversion_target
class FrozenConversion(Conversion):
    """A frozen graph."""

    source_formats: ClassVar[tuple[str, ...]] = ("onnx",)
    program: ClassVar[str] = "freeze.py"
    default_image: ClassVar[str] = "registry.example.org/freeze:2.1"
    target: Literal["frozen"] = "frozen"
    opset: int = 17

    def converter_arguments(self, uri):
        return ["--opset", str(self.opset), "--table", uri("table.npz")]

    def files(self):
        return ("table.npz",)
'''
GROUP = "slipway.conversion_targets"
PROGRAM = """
    import json
    from types import SimpleNamespace
    from kubernetes.client import ApiClient
    from slipway.hooks.s3_store import ModelStoreHook
    from slipway.operators.convert import ConvertModelOperator
    from slipway.release_run import ReleaseRun
    from slipway_core.spec.release_file import parse_release_spec

    ModelStoreHook.read = lambda *_, **__: None  # training leaves no configuration
    text = "model: ranker\\nsource: {}\\nconversion: {target: frozen, opset: 18, resources: {cpu: 3}}"
    spec = parse_release_spec(text, "ranker.yaml")
    run = ReleaseRun(release_id="manual__1", model="ranker", version=3, bucket="models", spec=spec, stable=None)
    operator = ConvertModelOperator(task_id="convert", release=run.model_dump_json())
    operator.render_template_fields({"run_id": "r 1"})
    release_run = operator.release_run
    runs = operator.execution_of(operator.describe(release_run), release_run).operator
    runs.__dict__["hook"] = SimpleNamespace(is_in_cluster=False, get_namespace=lambda: "slipway")
    manifest = ApiClient().sanitize_for_serialization(runs.build_pod_request_obj())
    (container,) = manifest["spec"]["containers"]
    print("RESULT", json.dumps({"needs": spec.required_files(), "container": container}))
"""


def test_a_target_of_another_package_becomes_a_pod(tmp_path: Path) -> None:
    """One class and one entry point: its image, its program with its options, and what training must leave for it."""
    install(tmp_path, "frozen-target", MODULE, {GROUP: {"frozen": "frozen_target:FrozenConversion"}})
    done = run_installed(tmp_path, PROGRAM)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("RESULT")]
    found = json.loads(line.removeprefix("RESULT"))
    assert "table.npz" in found["needs"]
    container = found["container"]
    assert container["image"] == "registry.example.org/freeze:2.1"
    assert container["resources"]["requests"]["cpu"] == "3"
    command = [*container.get("command", ()), *container.get("args", ())]
    assert "freeze.py" in command
    assert command[command.index("--opset") + 1] == "18"
    assert command[command.index("--table") + 1].endswith("/table.npz")


def test_an_unknown_target_is_an_error_that_names_the_known_ones(tmp_path: Path) -> None:
    """Nothing is converted to ONNX for want of a name."""
    done = run_installed(tmp_path, PROGRAM)
    assert done.returncode != 0
    assert "`conversion.target` has a wrong value. Expected one of ensemble, lightgbm, onnx, " in done.stderr


def test_its_keys_are_held_against_what_it_can_do(tmp_path: Path) -> None:
    """What it cannot be asked for is refused as of any target: nothing compares, so there are no variants."""
    install(tmp_path, "frozen-target", MODULE, {GROUP: {"frozen": "frozen_target:FrozenConversion"}})
    program = """
        from slipway_core.spec.release_file import parse_release_spec
        try:
            parse_release_spec("model: a\\nsource: {}\\nconversion: {target: frozen, variants: {b: {opset: 18}}}", "a")
        except Exception as error:
            print(error)
    """
    assert "`variants` is not for `target: frozen`" in run_installed(tmp_path, program).stdout


@pytest.mark.parametrize("target", Conversion.registry.built_in())
def test_each_target_has_its_row_in_the_documents(target: str) -> None:
    """The table of docs/conversion.md names its program and its image."""
    kind: type[Conversion] = Conversion.registry.get(target)
    text = (ROOT / "docs" / "conversion.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `.*$", text, re.MULTILINE)
    (row,) = [row for row in rows if f"`{target}`" in row.split("|")[1]]
    assert f"`{kind.program}`" in row
    assert f"`slipway/{kind.default_image}`" in row
