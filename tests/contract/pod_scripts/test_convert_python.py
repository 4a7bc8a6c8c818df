"""convert_python.py, over an S3 on loopback: what it lets pass, and what it says of what it refuses."""

from __future__ import annotations

import hashlib
import io
import tarfile
import zipfile
from typing import Any

import numpy as np
import pytest

from tests.support.examples import each_with_each
from tests.support.pods.support import ObjectStore, Pod, PodRun, check_software_list
from tests.support.serving.broken_repositories import BAD_MODELS, bad_model
from tests.support.serving.ensembles import PROGRAM, python_files

pytestmark = pytest.mark.timeout(600)

ROWS = np.ones((4, 2), np.float32)


def convert(pod: Pod, prefix: str, files: dict[str, bytes], *more: str, **golden: Any) -> PodRun:
    """Lay the source out as training leaves it, and convert it."""
    source = f"{prefix}/incoming"
    for path, content in files.items():
        pod.store.put(f"{source}/{path}", content)
    url = pod.store.put_arrays(f"{source}/golden.npz", **(golden or {"x": ROWS, "label": ROWS[:, 0]}))
    pod.store.put(f"{source}/ready.json", b"{}")
    return run(pod, prefix, pod.store.url(source), url, *more)


def run(pod: Pod, prefix: str, source: str, golden: str, *more: str) -> PodRun:
    """Convert what lies in the store already."""
    where = ("--source", source, "--golden", golden, "--model", "scale", "--version", "7")
    return pod.run("convert_python.py", *where, *more, prefix=f"{prefix}/out")


def archive(kind: str, files: dict[str, bytes], folder: str = "") -> bytes:
    """Pack files, below a folder or not."""
    buffer = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(buffer, "w") as bundle:
            for path, content in files.items():
                bundle.writestr(folder + path, content)
    else:
        with tarfile.open(fileobj=buffer, mode="w:gz") as bundle:
            for path, content in files.items():
                info = tarfile.TarInfo(folder + path)
                info.size = len(content)
                bundle.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def test_good_model_is_laid_out_as_it_will_be_served(
    python_pod: Pod, store: ObjectStore, prefix: str
) -> None:
    """Files are passed through bit by bit into the version's folder; droppings stay behind and are named."""
    more = {
        "helpers/table.py": b"VALUES = [1]\n",
        "requirements.txt": b"# served with\npandas==2.0\n\n",
        "__pycache__/model.pyc": b"x",
        ".gitkeep": b"",
    }
    files = {**python_files(), "model.py": b"import pandas, json\nimport helpers.table\n" + PROGRAM.encode()}
    done = convert(python_pod, prefix, {**files, **more})
    assert done.exit_code == 0, done.stderr
    assert done.result is not None
    laid = {file["path"]: file["sha256"] for file in done.result["repository"]["files"]}
    assert laid.keys() == {"scale/7/model.py", "scale/7/helpers/table.py", "scale/7/requirements.txt"}
    for path, digest in laid.items():
        content = store.read(f"{prefix}/out/repository/{path}")
        assert content == {**files, **more}[path.removeprefix("scale/7/")]
        assert hashlib.sha256(content).hexdigest() == digest
    assert 'name: "scale"' in done.result["repository"]["configs"]["scale"]
    assert done.result["signature"]["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}]
    assert done.result["left_out"] == [".gitkeep", "__pycache__/model.pyc"]
    assert done.result["golden_rows"] == 4
    check_software_list(done, store, f"{prefix}/out", "tritonclient")
    assert done.result["program"] == {
        "execute_seen": True,
        "imported": False,
        "imports": ["pandas"],
        "requirements": ["pandas==2.0"],
    }


@pytest.mark.parametrize(
    ("folder", "kind"), each_with_each({"flat": "", "in a folder": "scale/"}, ["zip", "tar.gz"])
)
def test_archive_is_as_good_as_a_folder(
    python_pod: Pod, store: ObjectStore, prefix: str, folder: str, kind: str
) -> None:
    """An archive is unpacked, whether or not its content lies in a folder of its own."""
    source = store.put(f"{prefix}/model.{kind}", archive(kind, python_files(), folder))
    golden = store.put_arrays(f"{prefix}/golden.npz", x=ROWS)
    done = run(python_pod, prefix, source, golden)
    assert done.exit_code == 0, done.stderr
    assert done.result is not None
    assert [file["path"] for file in done.result["repository"]["files"]] == ["scale/7/model.py"]


def test_archive_that_leads_outside_writes_nothing_there(
    python_pod: Pod, store: ObjectStore, prefix: str
) -> None:
    """A path with `..` in an archive is refused and named."""
    source = store.put(f"{prefix}/model.zip", archive("zip", {**python_files(), "../escaped.py": b"x = 1"}))
    golden = store.put_arrays(f"{prefix}/golden.npz", x=ROWS)
    done = run(python_pod, prefix, source, golden)
    assert done.exit_code == 3
    assert "../escaped.py" in str(done.error)


def test_label_file_lies_beside_the_configuration(python_pod: Pod, prefix: str) -> None:
    """A file that Triton reads from the model's folder is put there; one that is missing is named."""
    config = python_files()["config.pbtxt"].replace(
        b'"y" data_type', b'"y" label_filename: "l.txt" data_type'
    )
    files = {**python_files(), "config.pbtxt": config, "l.txt": b"zero\none\n"}
    done = convert(python_pod, prefix, files)
    assert done.exit_code == 0, done.stderr
    assert done.result is not None
    paths = {file["path"] for file in done.result["repository"]["files"]}
    assert paths == {"scale/l.txt", "scale/7/model.py"}


def test_bad_model_leaves_nothing(python_pod: Pod, store: ObjectStore, prefix: str) -> None:
    """What is wrong is told in the result, and no file of the model is written."""
    done = convert(python_pod, prefix, bad_model("another class"))
    assert done.exit_code == 3, done.stderr
    assert done.error["kind"] == "ModelInvalidError"
    assert BAD_MODELS["another class"][1] in str(done.error)
    assert store.keys(f"{prefix}/out") == {"result.json", "sbom.json"}


def test_file_name_that_no_server_reads(python_pod: Pod, prefix: str) -> None:
    """A file whose name has a space is refused and named."""
    done = convert(python_pod, prefix, {**python_files(), "my weights.bin": b"x"})
    assert (done.exit_code, done.error["kind"]) == (3, "ModelInvalidError")
    assert "my weights.bin" in str(done.error)


def test_class_with_an_inherited_execute_passes(python_pod: Pod, prefix: str) -> None:
    """`execute` may come from a class of the same file; from one of another file it cannot be seen, which is said."""
    base = b"class Base:\n  def execute(self, requests): ...\nclass TritonPythonModel(Base): ...\n"
    foreign = b"import lib\nclass TritonPythonModel(lib.Base): ...\n"
    for number, (program, seen) in enumerate(((base, True), (foreign, False))):
        done = convert(python_pod, f"{prefix}/{number}", {**python_files(), "model.py": program})
        assert done.result is not None
        assert done.result["program"]["execute_seen"] is seen, done.stderr


def test_program_is_run_only_when_asked(python_pod: Pod, prefix: str) -> None:
    """Module-level code is not run unless --try-import says so; then its failure is the model's fault."""
    files = {**python_files(), "model.py": PROGRAM.encode() + b"\nraise RuntimeError('ran')\n"}
    assert convert(python_pod, f"{prefix}/1", files).exit_code == 0
    done = convert(python_pod, f"{prefix}/2", files, "--try-import")
    assert (done.exit_code, done.error["found"]) == (3, "RuntimeError: ran")
    good = convert(python_pod, f"{prefix}/3", python_files(), "--try-import")
    assert good.exit_code == 0, good.stderr
    endless = {**python_files(), "model.py": b"while True: pass\n" + PROGRAM.encode()}
    late = convert(python_pod, f"{prefix}/4", endless, "--try-import", "--timeout-s", "8")
    assert (late.exit_code, late.error["kind"]) == (75, "TimedOutError")


def test_model_that_is_too_large_is_refused_before_it_is_fetched(python_pod: Pod, prefix: str) -> None:
    """More than the limit is refused with both sizes."""
    done = convert(python_pod, prefix, {**python_files(), "w.bin": bytes(2 << 20)}, "--max-size-mib", "1")
    assert done.exit_code == 3
    assert "at most 1 MiB" in str(done.error)
    assert "2.0 MiB" in str(done.error)


@pytest.mark.parametrize(
    ("golden", "words"),
    [
        ({"z": ROWS}, "lacks the column x"),
        ({"x": ROWS.astype(np.float64)}, "float64 of shape [4, 2]"),
        ({"x": np.ones((4, 3), np.float32)}, "shape [4, 3]"),
        ({"x": ROWS[:0]}, "x: 0"),
    ],
)
def test_golden_set_that_does_not_fit(
    python_pod: Pod, prefix: str, golden: dict[str, Any], words: str
) -> None:
    """A golden set is held against the declared inputs before any server sees it."""
    done = convert(python_pod, prefix, python_files(), **golden)
    assert (done.exit_code, done.error["kind"]) == (3, "GoldenSetError")
    assert words in str(done.error)


def test_nothing_there_is_said(python_pod: Pod, store: ObjectStore, prefix: str) -> None:
    """A source folder without files, and an archive that is cut short, are the person's to mend."""
    golden = store.put_arrays(f"{prefix}/golden.npz", x=ROWS)
    done = run(python_pod, f"{prefix}/1", store.url(f"{prefix}/nothing"), golden)
    assert (done.exit_code, done.error["kind"]) == (3, "InputMissingError")
    cut = store.put(f"{prefix}/model.tar.gz", archive("tar.gz", python_files())[:40])
    done = run(python_pod, f"{prefix}/2", cut, golden)
    assert done.exit_code == 3
    assert "cannot be unpacked" in done.error["what"]
