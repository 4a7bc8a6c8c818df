"""The release file's `source`: what training leaves."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import model_validator

from slipway_core.spec.parts import FileName, SpecPart

ARCHIVE_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".zip")
# What each format's own library writes without a pickle.
_MODEL_FILES = {
    "onnx": "model.onnx",
    "sklearn": "model.skops",
    "xgboost": "model.ubj",
    "lightgbm": "model.txt",
    "pytorch": "model.pt",
}
# Formats that are many files and not one.
_TREES = ("python", "repository", "checkpoint")


class Source(SpecPart):
    """What training leaves under incoming/MODEL/VERSION/."""

    format: Literal[
        "onnx", "sklearn", "xgboost", "lightgbm", "pytorch", "python", "repository", "checkpoint"
    ] = "onnx"
    """`onnx`, `sklearn`, `xgboost`, `lightgbm`, `pytorch`: one file. `python`: the files of one model of Triton's
    Python backend, with its config.pbtxt. `repository`: a whole Triton model repository, an ensemble and its
    members. `checkpoint`: a language model's folder in the form of Hugging Face.
    """
    model_file: FileName | None = None
    """The file, for a format that is one file. Default: model.onnx, model.skops, model.ubj, model.txt, model.pt."""
    folder: FileName | None = None
    """Where the files lie, for a format that is many. Default: `repository/` and `checkpoint/` for those, the
    version's own folder for Python.
    """
    archive: FileName | None = None
    """Instead of a folder: one archive (tar, tar.gz, zip) that holds its content. Not for a checkpoint."""
    golden_file: FileName = "golden.npz"
    """Inputs with known answers: one array per model input and one with labels, all with the same number of
    rows.
    """

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        is_tree = self.format in _TREES
        if is_tree and self.model_file:
            raise ValueError(f"`format: {self.format}` is many files; name a `folder` or an `archive`")
        if not is_tree and (self.folder or self.archive):
            raise ValueError(f"`format: {self.format}` is one file; name it as `model_file`")
        if self.folder and self.archive:
            raise ValueError("give either `folder` or `archive`")
        if self.archive and self.format == "checkpoint":
            raise ValueError(
                "`format: checkpoint` is read as a folder; upload its files, and name a `folder`"
            )
        if self.archive and not self.archive.endswith(ARCHIVE_SUFFIXES):
            raise ValueError(f"`archive` must end with one of {', '.join(ARCHIVE_SUFFIXES)}")
        if not is_tree and not self.model_file:
            self.__dict__["model_file"] = _MODEL_FILES[self.format]
        return self

    @property
    def location(self) -> str:
        """Return where the source lies, relative to incoming/MODEL/VERSION/: a file's name, or a folder's prefix.

        A prefix ends with a slash, or is empty for the version's own folder.
        """
        if self.format not in _TREES:
            return self.model_file or _MODEL_FILES[self.format]
        if self.archive:
            return self.archive
        folder = self.folder or ("" if self.format == "python" else self.format)
        return f"{folder}/" if folder else ""

    @property
    def is_folder(self) -> bool:
        """Return whether `location` is a prefix with many objects below it."""
        return self.format in _TREES and not self.archive

    def required_files(self) -> tuple[str, ...]:
        """Return what must have arrived beside ready.json, as far as the release file knows names."""
        if not self.is_folder:
            return (self.location, self.golden_file)
        known = ("config.pbtxt", "model.py") if self.format == "python" else ()
        return (*(self.location + name for name in known), self.golden_file)
