"""Images that are written without an engine, for the node of `make cluster-demo`."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

from tests.support.cluster_demo.image_archive import Image, Layer, write_archive


def read(images: list[Image]) -> tuple[list[dict[str, list[str]]], dict[str, bytes]]:
    """What the archive of some images lists, and its files."""
    written = io.BytesIO()
    write_archive(images, written)
    written.seek(0)
    with tarfile.open(fileobj=written) as tar:
        files = {one.name: content.read() for one in tar if (content := tar.extractfile(one)) is not None}
    return json.loads(files["manifest.json"]), files


def test_an_image_has_its_user_variables_entrypoint_and_the_digests_of_its_layers() -> None:
    """As `docker save` writes it: by these digests containerd checks the layers."""
    layer = Layer(files={"/etc/passwd": b"root"})
    image = Image("localhost/a:b", (layer,), "10001:10001", {"PATH": "/bin"}, ("run",), "/home")
    (listed,), files = read([image])
    assert listed["RepoTags"] == ["localhost/a:b"]
    configuration = json.loads(files[str(listed["Config"])])
    assert configuration["config"] == {
        "User": "10001:10001",
        "Env": ["PATH=/bin"],
        "Entrypoint": ["run"],
        "WorkingDir": "/home",
    }
    (name,) = listed["Layers"]
    assert configuration["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(files[name]).hexdigest()}"]


def test_a_layer_holds_files_programs_folders_and_links(tmp_path: Path) -> None:
    """Programs can be run, and a folder has the rights that it was given."""
    (tmp_path / "program").write_bytes(b"#!")
    layer = Layer(
        {"/a/text": b"text"}, {"/a/program": tmp_path / "program"}, {"/tmp": 0o1777}, {"bin": "usr/bin"}
    )
    with tarfile.open(fileobj=io.BytesIO(layer.archive())) as tar:
        found = {one.name: one for one in tar}
    assert {name: oct(one.mode) for name, one in found.items()} == {
        "tmp": "0o1777",
        "bin": "0o644",
        "a/text": "0o644",
        "a/program": "0o755",
    }
    assert (found["tmp"].isdir(), found["bin"].linkname) == (True, "usr/bin")
    assert {one.uid for one in found.values()} == {0}


def test_a_layer_that_two_images_have_is_written_once() -> None:
    """Base and programs are shared by all of the project's images."""
    shared = Layer(files={"/shared": b"shared"})
    listed, files = read([Image("a:1", (shared,)), Image("b:1", (shared, Layer(files={"/own": b"own"})))])
    assert listed[0]["Layers"] == listed[1]["Layers"][:1]
    assert sum(name.endswith(".tar") for name in files) == 2
