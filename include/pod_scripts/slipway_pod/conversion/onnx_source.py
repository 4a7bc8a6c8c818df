"""An ONNX source as it comes from S3: with its weights in files beside it, or text operators that name a locale.

What follows works on one file that any server can load.
"""

from __future__ import annotations

from pathlib import Path

from slipway_pod.conversion.run import ConversionRun
from slipway_pod.errors import PodError, first_line
from slipway_pod.models.onnx_files import save
from slipway_pod.models.onnx_locale import use_portable_locale
from slipway_pod.program.progress import say
from slipway_rules.onnx_models import MAX_DATA_FILES, WEIGHTS_LIMIT_BYTES
from slipway_rules.text_forms import is_plain_path


def fetch_onnx(run: ConversionRun, name: str) -> Path:
    """Download the source as one file of this name in the run's folder, with the weights that lie beside it.

    :raises PodError: of kind ModelInvalidError, InputMissingError.
    """
    path = run.fetch(run.options.source, name)
    located: tuple[str, ...] = run.tool("read", lambda: data_locations(path, run.options.source))
    if located:
        folder = run.folder / "source-data"
        path.rename(_moved(folder, name))
        fetch_data(run, folder, located)
        run.tool("gather", lambda: _gather(folder / name, path, run.options.source))
        say("fetch", f"weights of {len(located)} files are part of the model now")
    changed: list[str] = run.tool("locale", lambda: _use_portable_locale(path, run.options.source))
    for change in changed:
        say("locale", change)
    return path


def data_locations(path: Path, name: str) -> tuple[str, ...]:
    """Return the files beside a model that hold its weights, by their paths from it.

    :raises PodError: of kind ModelInvalidError, for one that leads elsewhere.
    """
    import onnx
    from onnx.external_data_helper import _get_all_tensors, uses_external_data

    try:
        model = onnx.load(path, load_external_data=False)
    except Exception:  # what is no model is said by the check, which comes next
        return ()
    found: dict[str, None] = {}
    for tensor in _get_all_tensors(model):
        if uses_external_data(tensor):
            entries = {entry.key: entry.value for entry in tensor.external_data}
            found[entries.get("location", "")] = None
    strange = [one for one in found if not is_plain_path(one) or one == path.name]
    if strange or len(found) > MAX_DATA_FILES:
        raise PodError(
            "ModelInvalidError",
            f"{name} keeps weights in files that cannot be taken",
            expected=f"at most {MAX_DATA_FILES} files in the model's folder, by plain names",
            found=f"{len(found)} files" if not strange else ", ".join(repr(one[:100]) for one in strange[:5]),
            remedy="save it again with onnx.save_model(…, save_as_external_data=True, location='model.onnx.data')",
        )
    return tuple(found)


def fetch_data(run: ConversionRun, folder: Path, located: tuple[str, ...]) -> None:
    """Download the files beside the source to `folder`, all together within the limit."""
    folder_uri = run.options.source.rsplit("/", 1)[0]
    total = 0
    for location in located:
        run.store.download(f"{folder_uri}/{location}", folder / location)
        total += (folder / location).stat().st_size
        if total > WEIGHTS_LIMIT_BYTES:
            raise PodError(
                "ModelInvalidError",
                f"{run.options.source} is too large to be served as one ONNX file",
                expected=f"at most {WEIGHTS_LIMIT_BYTES} bytes of weights",
                found=f"{total} bytes or more",
                remedy="export it in half precision, or release it as a model of Triton's Python backend "
                "(conversion.target: python), which takes a folder",
            )


def _moved(folder: Path, name: str) -> Path:
    folder.mkdir()
    return folder / name


def _gather(source: Path, target: Path, name: str) -> None:
    import onnx

    try:
        save(onnx.load(source), target)
    except Exception as error:
        raise PodError(
            "ModelInvalidError",
            f"{name} does not fit the files that hold its weights",
            expected="offsets and lengths within the files, and less than 2 GiB in all",
            found=first_line(error),
            remedy="save the model and its data again, and upload both",
        ) from error


def _use_portable_locale(path: Path, name: str) -> list[str]:
    import onnx

    try:
        model = onnx.load(path)
    except Exception:  # what is no model is said by the check, which comes next
        return []
    changes = use_portable_locale(model, name)
    if changes:
        save(model, path)
    return changes
