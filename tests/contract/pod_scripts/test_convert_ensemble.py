"""convert_ensemble.py, over an S3 on loopback; and its verdicts beside those of a real tritonserver."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from slipway_sandbox.services.triton import TritonPorts, TritonServer
from slipway_sandbox.services.triton_install import TritonInstall
from tests.support.pods.onnx_models import model_of
from tests.support.pods.support import ObjectStore, Pod, PodRun, check_software_list
from tests.support.serving.broken_repositories import (
    MISFITS,
    NO_UNITS,
    TOP,
    changed,
    ensemble_of,
    parts,
    without_unit,
)
from tests.support.serving.ensembles import ensemble_files, write_files
from tests.support.serving.triton_install import triton_install

pytestmark = pytest.mark.timeout(600)

ROWS = np.ones((4, 2), np.float32)


def convert(pod: Pod, prefix: str, files: dict[str, bytes], model: str = "prices") -> PodRun:
    """Lay the repository out as training leaves it, and convert it."""
    source = f"{prefix}/incoming/repository"
    for path, content in files.items():
        pod.store.put(f"{source}/{path}", content)
    golden = pod.store.put_arrays(f"{prefix}/incoming/golden.npz", x=ROWS)
    where = ("--source", pod.store.url(source), "--golden", golden, "--model", model, "--version", "7")
    return pod.run("convert_ensemble.py", *where, prefix=f"{prefix}/out")


def test_good_ensemble_is_laid_out_as_it_will_be_served(
    ensemble_pod: Pod, store: ObjectStore, prefix: str
) -> None:
    """All members' files are passed through into the released version's folders; the configurations are told."""
    files = {**ensemble_files(), "lookup/labels.txt": b"a\n", "README": b"ours", "prices/1/.gitkeep": b""}
    done = convert(ensemble_pod, prefix, files)
    assert done.exit_code == 0, done.stderr
    assert done.result is not None
    paths = {file["path"] for file in done.result["repository"]["files"]}
    assert paths == {"scale/7/model.py", "lookup/7/model.onnx", "lookup/labels.txt"}
    assert store.read(f"{prefix}/out/repository/lookup/7/model.onnx") == files["lookup/1/model.onnx"]
    assert set(done.result["repository"]["configs"]) == {"prices", "scale", "lookup"}
    assert done.result["signature"] == {
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}],
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 2]}],
    }
    check_software_list(done, store, f"{prefix}/out", "tritonclient")


def test_ensemble_gets_the_released_models_name(ensemble_pod: Pod, prefix: str) -> None:
    """An only ensemble of another name is published under the model's, which clients address."""
    done = convert(ensemble_pod, prefix, ensemble_files(top="ensemble"))
    assert done.exit_code == 0, done.stderr
    assert done.result is not None
    assert set(done.result["repository"]["configs"]) == {"prices", "scale", "lookup"}
    assert 'name: "prices"' in done.result["repository"]["configs"]["prices"]


def test_program_that_is_told_whom_to_call_makes_a_member(ensemble_pod: Pod, prefix: str) -> None:
    """A model that is called by a name in a parameter belongs to the unit though no step names it."""
    helper = {f"helper/{path}": content for path, content in parts("scale").items()}
    change = '[ { key: "helper_model_name" value: { string_value: "helper" } }, {'
    files = changed(("scale/config.pbtxt", "parameters [ {", f"parameters {change}"))
    done = convert(ensemble_pod, prefix, {**files, **helper})
    assert done.exit_code == 0, done.stderr


@pytest.mark.parametrize(
    ("files", "words"),
    [
        pytest.param(changed(MISFITS["shape"][0]), MISFITS["shape"][1], id="a step that does not fit"),
        pytest.param(without_unit("two versions"), NO_UNITS["two versions"][1], id="no unit"),
    ],
)
def test_repository_that_is_refused_leaves_nothing(
    ensemble_pod: Pod, store: ObjectStore, prefix: str, files: dict[str, bytes], words: str
) -> None:
    """What is wrong is described in the result, and no file of the repository is written."""
    done = convert(ensemble_pod, prefix, files)
    assert done.exit_code == 3, done.stderr
    assert done.error["kind"] == "ModelInvalidError"
    assert words in done.error["what"] + done.error["found"]
    assert store.keys(f"{prefix}/out") == {"result.json", "sbom.json"}


@pytest.fixture(scope="module")
def install() -> TritonInstall:
    """The private server folder."""
    return triton_install()


def starts(install: TritonInstall, folder: Path, files: dict[str, bytes]) -> bool:
    """Whether a server over these files gets ready with every model of them."""
    write_files(folder / "repository", files)
    (folder / "repository" / "prices" / "1").mkdir(exist_ok=True)
    log = folder / "log"
    server = TritonServer(install, folder / "repository", TritonPorts.free(), log_path=log, exit_timeout_s=1)
    server.start()
    try:
        server.wait_ready(60)
    except Exception:  # whatever it says, it is not ready
        return False
    else:
        return True
    finally:
        server.stop(grace_s=1)
        shutil.rmtree(folder / "repository")


@pytest.mark.parametrize(
    "name", [None, "datatype", "rank", "smaller batches", "written twice", "nothing writes"]
)
def test_refusal_is_no_stricter_than_triton(install: TritonInstall, tmp_path: Path, name: str | None) -> None:
    """What is refused here does not load on a real server either, and what passes does."""
    files = ensemble_files() if name is None else changed(MISFITS[name][0])
    assert starts(install, tmp_path, files) is (name is None)


def test_nothing_reads_a_tensor(ensemble_pod: Pod, prefix: str) -> None:
    """A tensor that is computed for nobody is refused: a step does work that no answer shows."""
    files = changed((TOP, "[\n  {", f"[\n  {_idle_step()},\n  {{"))
    done = convert(ensemble_pod, prefix, files)
    assert "nothing reads 'idle', which step 1 (scale) gives" in done.error["found"]


def _idle_step() -> str:
    maps = 'input_map { key: "x" value: "x" } output_map { key: "y" value: "idle" }'
    return f'{{ model_name: "scale" model_version: -1 {maps} }}'


def test_ensemble_in_an_ensemble_passes(ensemble_pod: Pod, prefix: str) -> None:
    """A member may be an ensemble itself: it needs no file."""
    files = {**ensemble_files(), "outer/config.pbtxt": ensemble_of("prices")}
    done = convert(ensemble_pod, prefix, files, model="outer")
    assert done.exit_code == 0, done.stderr
    assert done.result is not None
    assert set(done.result["repository"]["configs"]) == {"outer", "prices", "scale", "lookup"}


def test_a_members_text_operator_gets_a_locale_that_servers_have(
    ensemble_pod: Pod, store: ObjectStore, prefix: str
) -> None:
    """The member is changed in that alone, and the log names it; the image needs no `onnx` package."""
    node = helper.make_node(
        "StringNormalizer", ["x"], ["y"], "lower", case_change_action="LOWER", locale="en_US"
    )
    texts = [helper.make_tensor_value_info(name, 8, ["n"]) for name in ("x", "y")]
    files = {**ensemble_files(), "lookup/1/model.onnx": model_of([node], texts[:1], texts[1:], [])}
    done = convert(ensemble_pod, prefix, files)
    assert done.exit_code == 0, done.stderr
    published = onnx.load_from_string(store.read(f"{prefix}/out/repository/lookup/7/model.onnx"))
    found = {one.name: helper.get_attribute_value(one) for one in published.graph.node[0].attribute}
    assert found["locale"] == b"C.UTF-8"
