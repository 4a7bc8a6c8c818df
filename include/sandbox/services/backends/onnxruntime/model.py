"""A Triton backend named `onnxruntime`, written in Python, that serves `model.onnx` unmodified.

Triton's wheel holds only the Python backend. This file in `backends/onnxruntime/` makes a python-based
backend of that name, so a repository that says `platform: "onnxruntime_onnx"` loads here as it does on a
server that has the real one. It runs inside Triton's Python stub and imports nothing of this repository.

Inputs and outputs are those of `config.pbtxt`; a model that has others is refused when it is loaded. Requests
of one batch are answered apart: where the batch fails, each of its requests is run by itself, so that one bad
request fails alone.
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
        problems = [
            *differences("input", config["input"], self.session.get_inputs()),
            *differences("output", config["output"], self.session.get_outputs()),
        ]
        if problems:
            raise pb_utils.TritonModelException(
                f"{args['model_name']} version {args['model_version']}: the configuration does not fit "
                f"{file_name}: {'; '.join(problems)}"
            )
        self.batched = config.get("max_batch_size", 0) > 0
        self.input_names = [value.name for value in self.session.get_inputs()]
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
            if tensor is None:
                raise ValueError(f"the request has no input '{name}'")
            arrays[name] = text_array(tensor.as_numpy())
        return arrays

    def _groups(self, inputs: dict[int, Arrays]) -> Iterator[list[int]]:
        """Yield the positions that may run as one batch: alike in all but the first dimension."""
        if not self.batched:
            yield from ([position] for position in inputs)
            return
        groups: dict[tuple[tuple[int, ...], ...], list[int]] = {}
        for position, arrays in inputs.items():
            groups.setdefault(tuple(array.shape[1:] for array in arrays.values()), []).append(position)
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
        rows = [len(arrays[self.input_names[0]]) for arrays in group.values()]
        batch = {name: np.concatenate([one[name] for one in group.values()]) for name in self.input_names}
        try:
            outputs = self._run(batch)
        except Exception:  # each request is then run alone and gets its own error
            return None
        # An output that does not carry the batch in its first dimension cannot be shared out.
        if any(array.ndim == 0 or len(array) != sum(rows) for array in outputs.values()):
            return None
        ends = np.cumsum(rows)
        return {
            position: {name: array[end - count : end] for name, array in outputs.items()}
            for position, count, end in zip(group, rows, ends, strict=True)
        }

    def _run(self, arrays: Arrays) -> Arrays:
        outputs = self.session.run(self.output_names, arrays)
        return dict(zip(self.output_names, outputs, strict=True))


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


def differences(kind: str, configured: list[dict], found: Iterable[onnxruntime.NodeArg]) -> list[str]:
    """Return in words what the configuration declares otherwise than the model; empty where they agree.

    A model may have outputs that the configuration leaves out; it may not need inputs that are left out.
    """
    types = {value.name: value.type for value in found}
    problems = []
    for value in configured:
        name = value["name"]
        if name not in types:
            problems.append(f"the model has no {kind} '{name}' (it has {', '.join(sorted(types)) or 'none'})")
        elif TRITON_TYPES.get(types[name]) != value["data_type"]:
            problems.append(
                f"{kind} '{name}' is {value['data_type']} in the configuration, {types[name]} in the model"
            )
    if kind == "input":
        names = {value["name"] for value in configured}
        problems += [f"the configuration leaves out input '{name}'" for name in types if name not in names]
    return problems


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
