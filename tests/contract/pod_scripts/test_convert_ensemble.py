"""convert_ensemble.py, over an S3 on loopback; and its verdicts beside those of a real tritonserver."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from include.sandbox.services.triton import TritonPorts, TritonServer
from include.sandbox.services.triton_install import TritonInstall
from tests.support.pods.support import ObjectStore, Pod, PodRun, check_software_list
from tests.support.serving.ensembles import PROGRAM, TENSORS, ensemble_files, write_files
from tests.support.serving.triton_install import triton_install

pytestmark = pytest.mark.timeout(180)

ROWS = np.ones((4, 2), np.float32)
Change = tuple[str, str, str]


def convert(pod: Pod, prefix: str, files: dict[str, bytes], model: str = "prices") -> PodRun:
    """Lay the repository out as training leaves it, and convert it."""
    source = f"{prefix}/incoming/repository"
    for path, content in files.items():
        pod.store.put(f"{source}/{path}", content)
    golden = pod.store.put_arrays(f"{prefix}/incoming/golden.npz", x=ROWS)
    where = ("--source", pod.store.url(source), "--golden", golden, "--model", model, "--version", "7")
    return pod.run("convert_ensemble.py", *where, prefix=f"{prefix}/out")


def changed(*changes: Change) -> dict[str, bytes]:
    """Return the ensemble with pieces of its texts replaced."""
    files = ensemble_files()
    for path, old, new in changes:
        assert old in files[path].decode(), f"{old} is not in {path}"
        files[path] = files[path].replace(old.encode(), new.encode())
    return files


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
    helper = {f"helper/{path}": content for path, content in _parts("scale").items()}
    told = '[ { key: "helper_model_name" value: { string_value: "helper" } }, {'
    files = changed(("scale/config.pbtxt", "parameters [ {", f"parameters {told}"))
    done = convert(ensemble_pod, prefix, {**files, **helper})
    assert done.exit_code == 0, done.stderr


def _parts(model: str) -> dict[str, bytes]:
    return {
        path.partition("/")[2]: content
        for path, content in ensemble_files().items()
        if path.startswith(f"{model}/")
    }


SCALE, LOOKUP, TOP = (f"{name}/config.pbtxt" for name in ("scale", "lookup", "prices"))
# Each is one thing that is wrong with the steps, and how the refusal puts it.
MISFITS: dict[str, tuple[Change, str]] = {
    "stranger": ((TOP, '"lookup"', '"tabel"'), "'prices' calls 'tabel', which is not in the repository"),
    "input not there": ((TOP, 'key: "x" value: "scaled"', 'key: "z" value: "scaled"'), "maps the input 'z'"),
    "output not there": ((TOP, 'key: "y" value: "scaled"', 'key: "z" value: "scaled"'), "maps the output 'z'"),
    "nothing writes": ((TOP, 'key: "x" value: "scaled"', 'key: "x" value: "scald"'), "nothing writes 'scald'"),
    "written twice": ((TOP, 'key: "y" value: "y"', 'key: "y" value: "scaled"'), "is written by"),
    "datatype": ((LOOKUP, 'name: "x" data_type: TYPE_FP32', 'name: "x" data_type: TYPE_INT32'), "INT32[-1, 2]"),
    "shape": ((SCALE, 'name: "y" data_type: TYPE_FP32 dims: [ 2 ]', 'name: "y" data_type: TYPE_FP32 dims: [ 3 ]'),
              "'scaled' is FP32[-1, 3] from step 1 (scale) and FP32[-1, 2] for step 2 (lookup)"),
    "rank": ((SCALE, 'name: "y" data_type: TYPE_FP32 dims: [ 2 ]',
              'name: "y" data_type: TYPE_FP32 dims: [ 2, 1 ]'), "FP32[-1, 2, 1]"),
    "smaller batches": ((SCALE, "max_batch_size: 16", "max_batch_size: 4"), "takes batches of 4, the ensemble of 16"),
    # Triton loads this one, and fails every batch of more than one row.
    "no batches": ((LOOKUP, "max_batch_size: 16", "max_batch_size: 0"), "FP32[2] for step 2 (lookup)"),
    "version not there": ((TOP, "model_version: -1", "model_version: 3"), "wants version 3, but version 1"),
    "top's output": ((TOP, 'name: "y"', 'name: "q"'), "nothing writes 'q'"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "words"), MISFITS.values(), ids=MISFITS)
def test_steps_that_do_not_fit_are_refused(
    ensemble_pod: Pod, store: ObjectStore, prefix: str, change: Change, words: str
) -> None:
    """A step that calls a stranger, or whose tensors do not fit its member's, is refused and described."""
    done = convert(ensemble_pod, prefix, changed(change))
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


def ensemble_of(model: str) -> bytes:
    """The configuration of an ensemble with one step."""
    maps = 'input_map { key: "x" value: "x" } output_map { key: "y" value: "y" }'
    steps = f'ensemble_scheduling {{ step [ {{ model_name: "{model}" model_version: -1 {maps} }} ] }}'
    return f'platform: "ensemble"\nmax_batch_size: 16\n{steps}\n{TENSORS}'.encode()


REFUSED: dict[str, tuple[dict[str, bytes | None], str]] = {
    "idle member": (
        {f"idle/{path}": content for path, content in _parts("scale").items()},
        "does not use all",
    ),
    "empty member": ({"lookup/1/model.onnx": None}, "'lookup' has 0 versions with files"),
    "two versions": ({"lookup/2/model.onnx": b"x"}, "'lookup' has 2 versions with files"),
    "no configuration": ({"lookup/config.pbtxt": None}, "There is no lookup/config.pbtxt"),
    "no ensemble": ({"prices/config.pbtxt": None}, "which model clients shall address"),
    "two ensembles": (
        {"prices/config.pbtxt": None, "a/config.pbtxt": ensemble_of("scale"), "b/config.pbtxt": ensemble_of("lookup")},
        "the ensembles a, b",
    ),
    "a circle": (
        {"prices/config.pbtxt": ensemble_of("b"), "b/config.pbtxt": ensemble_of("prices")},
        "prices → b → prices",
    ),
    "a member without tensors": (
        {"scale/config.pbtxt": b'backend: "python" max_batch_size: 16'},
        "declares no input",
    ),
    "another name": ({"scale/config.pbtxt": b'name: "skale"'}, "is that of another model"),
    "not Python": ({"scale/1/model.py": b"def f(:\n"}, "scale/1/model.py is not valid Python"),
    "a name in the code": (
        {"scale/1/model.py": f"{PROGRAM}\npb_utils.InferenceRequest(model_name='lookup')\n".encode()},
        "calls a model by a name in its code",
    ),
    "no repository": (
        dict.fromkeys(ensemble_files()) | {"notes.txt": b"x"},
        "There is no model in the repository",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("change", "words"), REFUSED.values(), ids=REFUSED)
def test_repository_that_is_no_unit_is_refused(
    ensemble_pod: Pod, store: ObjectStore, prefix: str, change: dict[str, bytes | None], words: str
) -> None:
    """A repository with something missing, superfluous or ambiguous is refused and what it is is named."""
    files = {path: content for path, content in {**ensemble_files(), **change}.items() if content is not None}
    done = convert(ensemble_pod, prefix, files)
    assert done.exit_code == 3, done.stderr
    assert done.error["kind"] == "ModelInvalidError"
    assert words in done.error["what"] + str(done.error["found"])
    assert store.keys(f"{prefix}/out") == {"result.json", "sbom.json"}


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
