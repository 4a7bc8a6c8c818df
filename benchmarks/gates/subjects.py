"""The models that are damaged, each with golden sets drawn from real data, and its release file's validation."""

from __future__ import annotations

import json
import tokenize
from functools import cache
from pathlib import Path

import numpy as np
import onnx

from benchmarks.gates.encoder import encoder
from benchmarks.gates.subject import Array, Arrays, Subject, chosen
from benchmarks.gates.wheels import wheel_file
from slipway_core.gates.validation.kinds.classification import ClassificationValidation
from slipway_core.gates.validation.kinds.regression import RegressionValidation


def subjects() -> list[Subject]:
    """Return all of them."""
    return [digits(), magika(), orientation(), voice(), encoder()]


def digits() -> Subject:
    """Return the demo's second version: a small network on scikit-learn's digits."""
    import io

    from slipway_digit_models.training import golden_set, train

    trained = train(2)
    arrays = np.load(io.BytesIO(golden_set(2)))
    pixels, labels = arrays["pixels"], arrays["label"]

    def golden(seed: int) -> Arrays:
        rows = chosen(seed, labels, 300)
        return {"pixels": pixels[rows], "label": labels[rows]}

    return Subject(
        "digits",
        onnx.load_from_string(trained.onnx),
        ClassificationValidation(),
        golden,
        "pixels",
        "FP32",
        10,
        64,
    )


@cache
def _files() -> list[tuple[bytes, str]]:
    """Return beginnings and ends of files of this environment, with what their names say that they are."""
    wanted = {
        ".py": "python", ".so": "elf", ".md": "markdown", ".html": "html", ".css": "css", ".js": "javascript",
        ".json": "json", ".png": "png", ".c": "c", ".svg": "svg", ".xml": "xml", ".toml": "toml", ".gz": "gzip",
        ".ttf": "ttf", ".csv": "csv", ".pyc": "pythonbytecode", ".zip": "zip", ".sh": "shell", ".npz": "npz",
    }  # fmt: skip
    found: dict[str, list[tuple[bytes, str]]] = {}
    for root in (Path(np.__file__).parents[1], Path(tokenize.__file__).parent):
        for path in sorted(root.rglob("*")):
            label = wanted.get(path.suffix)
            if label and len(found.get(label, ())) < 14 and path.is_file() and path.stat().st_size > 600:
                found.setdefault(label, []).append((path.read_bytes(), label))
    return [one for of in found.values() for one in of]


def _magika_bytes(content: bytes) -> Array:
    """Return the first and the last 1,024 bytes, as the package prepares them."""
    first, last = content[:4096].lstrip()[:1024], content[-4096:].rstrip()[-1024:]
    tokens = np.full(2048, 256, np.int32)
    tokens[: len(first)] = np.frombuffer(first, np.uint8)
    tokens[2048 - len(last) :] = np.frombuffer(last, np.uint8)
    return tokens


def magika() -> Subject:
    """Return Google's file type classifier, over files of this environment."""
    import magika as package

    folder = Path(package.__file__).parent / "models" / "standard_v3_3"
    names = json.loads((folder / "config.min.json").read_text())["target_labels_space"]
    known = [(content, names.index(label)) for content, label in _files() if label in names]
    tokens = np.stack([_magika_bytes(content) for content, _ in known])
    labels = np.asarray([label for _, label in known])

    def golden(seed: int) -> Arrays:
        rows = chosen(seed, labels, 100)
        return {"bytes": tokens[rows], "label": labels[rows]}

    values, counts = np.unique(labels, return_counts=True)
    return Subject(
        "magika",
        onnx.load(folder / "model.onnx"),
        ClassificationValidation(output="target_label"),
        golden,
        "bytes",
        "INT32",
        len(names),
        2048,
        "int32",
        common_labels=tuple(values[np.argsort(-counts)].tolist()),
    )


def orientation() -> Subject:
    """Return PaddleOCR's classifier of a text line's orientation (upright or turned), over rendered lines."""
    model = onnx.load_from_string(wheel_file("ch_ppocr_mobile_v2.0_cls_infer.onnx"))
    images, labels = _text_lines()

    def golden(seed: int) -> Arrays:
        rows = chosen(seed, labels, 80)
        return {"x": images[rows], "label": labels[rows]}

    validation = ClassificationValidation(output=model.graph.output[0].name)
    return Subject("ocr_orientation", model, validation, golden, "x", "FP32", 2, 192)


@cache
def _text_lines() -> tuple[Array, Array]:
    import matplotlib
    from PIL import Image, ImageDraw, ImageFont

    numbers = np.random.default_rng(11)
    font = ImageFont.truetype(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf", 30)
    words = [
        name.strip()
        for name in Path(tokenize.__file__).read_text().replace("_", " ").split()
        if name.isalpha()
    ]
    images, labels = [], []
    for number in range(160):
        image = Image.new("L", (192, 48), 255)
        text = " ".join(numbers.choice(words, 2))[:12]
        ImageDraw.Draw(image).text((4, 6), text, fill=int(numbers.integers(0, 90)), font=font)
        pixels = np.asarray(image, np.float32)
        turned = number % 2
        pixels = pixels[::-1, ::-1] if turned else pixels
        images.append(np.repeat((pixels[None] / 255 - 0.5) / 0.5, 3, axis=0))
        labels.append(turned)
    return np.stack(images).astype(np.float32), np.asarray(labels)


def voice() -> Subject:
    """Return Silero's voice detector: a state whose second axis is the batch, and a single number as an input.

    Its golden answers are those of the model as it was published, over chunks of made sound: tones of a voice's
    formants, noise and silence, each with the state that the chunks before it left.
    """
    model = onnx.load_from_string(wheel_file("silero_vad_16k_op15.onnx"))
    chunks, states, answers = _sound(model.SerializeToString())

    def golden(seed: int) -> Arrays:
        rows = chosen(seed, answers, 150)
        return {
            "input": chunks[rows],
            "state": states[:, rows],
            "sr": np.asarray(16000),
            "label": answers[rows],
        }

    validation = RegressionValidation(output="output", mae_max=0.05)
    return Subject("silero_vad", model, validation, golden, "input", "FP32", 1, 576)


@cache
def _sound(content: bytes) -> tuple[Array, Array, Array]:
    import onnxruntime

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    numbers = np.random.default_rng(5)
    rate, chunk = 16000, 512
    sounds = []
    for number in range(24):
        seconds = np.arange(chunk * 12) / rate
        pitch = numbers.uniform(90, 240) * (1 + 0.05 * np.sin(2 * np.pi * 3 * seconds))
        phase = 2 * np.pi * np.cumsum(pitch) / rate
        wave = sum(
            np.exp(-(((k * pitch.mean() - formant) / 220) ** 2)) * np.sin(k * phase)
            for k in range(1, 25)
            for formant in numbers.choice([300, 500, 700, 900, 1200, 2300, 2700], 3, replace=False)
        )
        loud = {0: 0.3, 1: 0.1, 2: 0.0}[number % 3]
        noise = numbers.normal(scale=0.02 if number % 3 < 2 else [0.0, 0.1][number % 2], size=len(seconds))
        sounds.append(loud * wave / max(np.abs(wave).max(), 1e-6) * (0.5 + 0.5 * np.sin(5 * seconds)) + noise)
    chunks, states, answers = [], [], []
    for sound in sounds:
        state, before = np.zeros((2, 1, 128), np.float32), np.zeros(64, np.float32)
        for start in range(0, len(sound), chunk):
            piece = np.concatenate([before, sound[start : start + chunk]]).astype(np.float32)
            answer, following = session.run(
                ["output", "stateN"], {"input": piece[None], "state": state, "sr": np.asarray(rate)}
            )
            chunks.append(piece)
            states.append(state[:, 0])
            answers.append(float(answer[0, 0]))
            state, before = following, piece[-64:]
    return np.stack(chunks), np.stack(states, axis=1), np.asarray(answers)
