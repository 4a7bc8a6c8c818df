"""A Triton backend named `onnxruntime`, written in Python, that serves `model.onnx` unmodified.

Triton's wheel holds only the Python backend. This file in `backends/onnxruntime/` makes a python-based
backend of that name, so a repository that says `platform: "onnxruntime_onnx"` loads here as it does on a
server that has the real one. It runs inside Triton's Python stub and imports nothing of this repository.

Inputs and outputs are those of `config.pbtxt`; a model that has others is refused when it is loaded, by the rules of
the real backend (`CompareDimsSupported`): an input's sizes are the model's wherever it fixes them, an output's exactly.
What Triton makes of a batch (`batch_input`, `batch_output`, ragged inputs) is emulated here, after its
`backend_input_collector.cc`. Requests of one batch are answered apart: where the batch fails, each of its requests is
run by itself, so that one bad request fails alone.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import onnxruntime
import triton_python_backend_utils as pb_utils

# What ONNX Runtime calls a tensor's type, in the words of a Triton configuration.
TRITON_TYPES = {
    "tensor(bool)": "TYPE_BOOL",
    "tensor(uint8)": "TYPE_UINT8",
    "tensor(uint16)": "TYPE_UINT16",
    "tensor(uint32)": "TYPE_UINT32",
    "tensor(uint64)": "TYPE_UINT64",
    "tensor(int8)": "TYPE_INT8",
    "tensor(int16)": "TYPE_INT16",
    "tensor(int32)": "TYPE_INT32",
    "tensor(int64)": "TYPE_INT64",
    "tensor(float16)": "TYPE_FP16",
    "tensor(float)": "TYPE_FP32",
    "tensor(double)": "TYPE_FP64",
    "tensor(string)": "TYPE_STRING",
}

Arrays = dict[str, np.ndarray]


class TritonPythonModel:
    """One instance of one version of a model: an ONNX Runtime session and the names it answers to."""

    def initialize(self, args: dict[str, str]) -> None:
        """Open the session and check the configuration against it; raises `TritonModelException`."""
        config = json.loads(args["model_config"])
        file_name = config.get("default_model_filename") or "model.onnx"
        path = Path(args["model_repository"]) / args["model_version"] / file_name
        if not path.is_file():
            raise pb_utils.TritonModelException(
                f"{args['model_name']} version {args['model_version']}: there is no file {file_name}"
            )
        self.session = open_session(path, args["model_name"], args["model_version"])
        problems = differences(config, self.session)
        if problems:
            raise pb_utils.TritonModelException(
                f"{args['model_name']} version {args['model_version']}: the configuration does not fit "
                f"{file_name}: {'; '.join(problems)}"
            )
        self.batched = config.get("max_batch_size", 0) > 0
        self.batch_inputs = config.get("batch_input", [])
        self.scattered = {
            name: value["source_input"][0]
            for value in config.get("batch_output", [])
            for name in value["target_name"]
        }
        self.input_names = [value["name"] for value in config["input"]]
        self.optional = {value["name"] for value in config["input"] if value.get("optional")}
        self.ragged = {value["name"] for value in config["input"] if value.get("allow_ragged_batch")}
        self.output_names = [value["name"] for value in config["output"]]

    def execute(self, requests: list["pb_utils.InferenceRequest"]) -> list["pb_utils.InferenceResponse"]:
        """Answer each request, in order: with its tensors, or with its own error."""
        responses: list[pb_utils.InferenceResponse | None] = [None] * len(requests)
        inputs: dict[int, Arrays] = {}
        for position, request in enumerate(requests):
            try:
                inputs[position] = self._inputs_of(request)
            except Exception as error:  # whatever it is, it is this request's answer
                responses[position] = failure(error)
        for group in self._groups(inputs):
            for position, answer in self._answers({at: inputs[at] for at in group}):
                if isinstance(answer, Exception):
                    responses[position] = failure(answer)
                else:
                    responses[position] = success(answer, requests[position].requested_output_names())
        return [response or failure(RuntimeError("the request was not run")) for response in responses]

    def finalize(self) -> None:
        """Let the session go."""
        del self.session

    def _inputs_of(self, request: "pb_utils.InferenceRequest") -> Arrays:
        arrays = {}
        for name in self.input_names:
            tensor = pb_utils.get_input_tensor_by_name(request, name)
            if tensor is None and name in self.optional:
                continue
            if tensor is None:
                raise ValueError(f"the request has no input '{name}'")
            arrays[name] = text_array(tensor.as_numpy())
        return arrays

    def _groups(self, inputs: dict[int, Arrays]) -> Iterator[list[int]]:
        """Yield the positions that may run as one batch: alike in all but the first dimension."""
        if not self.batched:
            yield from ([position] for position in inputs)
            return
        groups: dict[tuple[tuple[str, tuple[int, ...]], ...], list[int]] = {}
        for position, arrays in inputs.items():
            alike = tuple((name, a.shape[1:]) for name, a in arrays.items() if name not in self.ragged)
            groups.setdefault(alike, []).append(position)
        yield from groups.values()

    def _answers(self, group: dict[int, Arrays]) -> Iterator[tuple[int, Arrays | Exception]]:
        """Run a group as one batch; where that fails, or rows do not come back, each request by itself."""
        if len(group) > 1:
            together = self._run_together(group)
            if together is not None:
                yield from together.items()
                return
        for position, arrays in group.items():
            try:
                yield position, self._run(arrays)
            except Exception as error:  # whatever it is, it is this request's answer
                yield position, error

    def _run_together(self, group: dict[int, Arrays]) -> dict[int, Arrays] | None:
        requests = list(group.values())
        rows = [len(arrays[self.input_names[0]]) for arrays in requests]
        try:
            outputs = self._run(*requests)
        except Exception:  # each request is then run alone and gets its own error
            return None
        parts = {name: self._shared_out(name, array, requests, rows) for name, array in outputs.items()}
        # An output that does not carry the batch in its first dimension cannot be shared out.
        if any(part is None for part in parts.values()):
            return None
        return {
            position: {name: part[at] for name, part in parts.items()} for at, position in enumerate(group)
        }

    def _shared_out(
        self, name: str, array: np.ndarray, requests: list[Arrays], rows: list[int]
    ) -> list[np.ndarray] | None:
        """Return each request's part of an output; None if it does not carry the batch."""
        if name in self.scattered:
            shapes = [arrays[self.scattered[name]].shape for arrays in requests]
            return scattered(array, shapes)
        if array.ndim == 0 or len(array) != sum(rows):
            return None
        return np.split(array, np.cumsum(rows)[:-1])

    def _run(self, *requests: Arrays) -> Arrays:
        """Run requests as one batch; of one request alone an output may have any shape."""
        feeds = {
            name: np.concatenate([one[name].reshape(-1) for one in requests])
            if name in self.ragged
            else np.concatenate([one[name] for one in requests])
            if len(requests) > 1
            else requests[0][name]
            for name in requests[0]
        }
        for made in self.batch_inputs:
            values = batch_input(made, [one[made["source_input"][0]].shape for one in requests])
            feeds.update((name, values) for name in made["target_name"])
        outputs = self.session.run(self.output_names, feeds)
        answers = dict(zip(self.output_names, outputs, strict=True))
        if len(requests) == 1:
            for name in self.scattered.keys() & answers.keys():
                (answers[name],) = scattered(answers[name], [requests[0][self.scattered[name]].shape])
            for name in answers.keys() - self.scattered.keys() if self.ragged else ():
                require_rows(name, answers[name], len(requests[0][self.input_names[0]]))
        return answers


def batch_input(made: dict, shapes: list[tuple[int, ...]]) -> np.ndarray:
    """Return what Triton feeds of a batch whose requests have these shapes, the batch dimension first."""
    kind = made.get("kind", "BATCH_ELEMENT_COUNT")
    dtype = np.int32 if made["data_type"] == "TYPE_INT32" else np.float32
    counts = [int(np.prod(shape)) for shape in shapes]
    if kind == "BATCH_ELEMENT_COUNT":
        return np.array(counts, dtype)
    if kind == "BATCH_ACCUMULATED_ELEMENT_COUNT":
        return np.cumsum(counts).astype(dtype)
    if kind == "BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO":
        return np.cumsum([0, *counts]).astype(dtype)
    if kind == "BATCH_MAX_ELEMENT_COUNT_AS_SHAPE":
        return np.zeros(max(counts), dtype)
    items = np.array([shape[1:] for shape in shapes for _ in range(shape[0])], dtype)
    return items.reshape(-1) if kind == "BATCH_ITEM_SHAPE_FLATTEN" else items


def scattered(array: np.ndarray, shapes: list[tuple[int, ...]]) -> list[np.ndarray]:
    """Return the parts of a flat output, each in the shape of its request's input."""
    counts = [int(np.prod(shape)) for shape in shapes]
    if array.size != sum(counts):
        raise ValueError(f"{array.size} elements cannot be shared out over inputs of {sum(counts)}")
    parts = np.split(array.reshape(-1), np.cumsum(counts)[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def require_rows(name: str, array: np.ndarray, rows: int) -> None:
    """Raise ValueError unless an output has the request's rows: the real backend would read beyond its end."""
    if array.shape[:1] != (rows,):
        raise ValueError(f"output '{name}' has shape {list(array.shape)} for a request of {rows} rows")


def open_session(path: Path, model: str, version: str) -> onnxruntime.InferenceSession:
    """Open a session on the CPU that uses one thread: Triton's instances are the parallelism."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 4  # errors reach the client as the answer; the log need not repeat each
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime raises many classes without a common base
        raise pb_utils.TritonModelException(
            f"{model} version {version}: ONNX Runtime cannot read the model: {error}"
        ) from None


def differences(config: dict, session: onnxruntime.InferenceSession) -> list[str]:
    """Return in words what the configuration declares otherwise than the model; empty if they agree.

    A model may have outputs that the configuration leaves out; it may not need inputs that are left out.
    """
    own = {value.name: value for value in session.get_overridable_initializers()}
    needed = {value.name: value for value in session.get_inputs()}
    outputs = {value.name: value for value in session.get_outputs()}
    batched = config.get("max_batch_size", 0) > 0
    made = {name for value in config.get("batch_input", []) for name in value["target_name"]}
    apart = {name for value in config.get("batch_output", []) for name in value["target_name"]}
    problems = [
        *compared("input", config["input"], own | needed),
        *compared("output", config["output"], outputs),
    ]
    problems += [
        f"batch input '{name}' is not an input of the model" for name in sorted(made - needed.keys())
    ]
    for value in config["input"]:
        known = (own | needed).get(value["name"])
        if known is not None:
            problems += optional_problems(value, batched, value["name"] in own)
            problems += shape_problems("input", value, known.shape, batched)
    for value in config["output"]:
        if value["name"] in outputs and value["name"] not in apart:
            problems += shape_problems("output", value, outputs[value["name"]].shape, batched)
    given = made | {value["name"] for value in config["input"]}
    return problems + [f"the configuration leaves out input '{name}'" for name in needed if name not in given]


def compared(kind: str, configured: list[dict], found: dict[str, onnxruntime.NodeArg]) -> Iterator[str]:
    """Yield names that the model has not, and types that are not the model's."""
    for value in configured:
        name = value["name"]
        if name not in found:
            yield f"the model has no {kind} '{name}' (it has {', '.join(sorted(found)) or 'none'})"
        elif TRITON_TYPES.get(found[name].type) != value["data_type"]:
            yield f"{kind} '{name}' is {value['data_type']} in the configuration, {found[name].type} in the model"


def optional_problems(value: dict, batched: bool, has_value: bool) -> Iterator[str]:
    """Yield what the real backend refuses about an optional input."""
    name, optional = value["name"], bool(value.get("optional"))
    if optional and batched:
        yield f"optional input '{name}' is not supported for models that support batching"
    if optional != has_value:
        yield f"input '{name}' is {'optional' if optional else 'needed'} in the configuration, and not in the model"


def shape_problems(kind: str, value: dict, shape: list, batched: bool) -> Iterator[str]:
    """Yield what the real backend refuses about sizes: outputs exactly, inputs where the model is fixed."""
    name = value["name"]
    model = [size if isinstance(size, int) and size >= 0 else -1 for size in shape]
    dims = list(value["reshape"].get("shape", []) if value.get("reshape") else value["dims"])
    if value.get("allow_ragged_batch"):
        if model != [-1]:
            yield f"ragged {kind} '{name}' has shape {model} in the model, and must have [-1]"
        return
    if not model:
        if any(size != 1 for size in dims):
            yield f"scalar tensor '{name}' has dims {dims} in the configuration, and must have 1 alone"
        return
    if batched and model[0] != -1:
        yield f"{kind} '{name}': to support batching the first dimension must be -1; but the model's shape is {model}"
        return
    full = [-1, *dims] if batched else dims
    exact = kind == "output"
    if len(full) != len(model) or any(
        theirs != ours and (exact or theirs != -1) for ours, theirs in zip(full, model, strict=True)
    ):
        yield f"{kind} '{name}' has shape {model} in the model, {full} in the configuration"


def text_array(array: np.ndarray) -> np.ndarray:
    """Return BYTES as text, which is what ONNX Runtime takes; every other array unchanged."""
    if array.dtype != np.object_:
        return array
    flat = [value.decode("utf-8") if isinstance(value, bytes) else str(value) for value in array.ravel()]
    return np.array(flat, dtype=np.object_).reshape(array.shape)


def bytes_array(array: np.ndarray) -> np.ndarray:
    """Return text as UTF-8 BYTES, which is what Triton takes; every other array unchanged."""
    if array.dtype != np.object_ and array.dtype.kind != "U":
        return np.ascontiguousarray(array)
    flat = [str(value).encode("utf-8") for value in array.ravel()]
    return np.array(flat, dtype=np.object_).reshape(array.shape)


def success(outputs: Arrays, wanted: Iterable[str]) -> "pb_utils.InferenceResponse":
    """Return the answer that carries the wanted outputs."""
    tensors = [pb_utils.Tensor(name, bytes_array(outputs[name])) for name in outputs if name in set(wanted)]
    return pb_utils.InferenceResponse(output_tensors=tensors)


def failure(error: Exception) -> "pb_utils.InferenceResponse":
    """Return the answer that carries one request's error."""
    return pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error)))
