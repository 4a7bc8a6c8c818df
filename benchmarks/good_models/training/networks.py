"""Run by the Python of the image `pytorch`: trains small networks and writes them with golden sets.

python networks.py FOLDER VERSION …

Reads `digits.npz` in FOLDER (pixels FP32 [rows, 64] of 0 to 1, label INT64 [rows]). Writes for each version and family
a folder FAMILY-VERSION with the model's file and `golden.npz`. A version is trained with a seed of its own; the
sentence encoder's second one is the first, tuned further.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

GOLDEN = 250
ANY = torch.export.Dim.AUTO


def main(folder: Path, versions: list[int]) -> None:
    """Write everything."""
    torch.set_num_threads(1)
    for version in versions:
        for name, write in FAMILIES.items():
            torch.manual_seed(version)
            home = folder / f"{name}-{version}"
            home.mkdir()
            write(home, version)


def fitted(model: Any, inputs: tuple[Tensor, ...], loss_of: Callable[[Any], Tensor], steps: int) -> Any:
    """Train the model on all rows at once, and return it for use."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    model.train()
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of(model(*inputs)).backward()
        optimizer.step()
    return model.eval()


def keep(folder: Path, **arrays: Any) -> None:
    """Write the golden set."""
    np.savez(folder / "golden.npz", **{name: np.asarray(one) for name, one in arrays.items()})


def to_onnx(
    model: nn.Module,
    inputs: dict[str, Tensor],
    outputs: list[str],
    path: Path,
    *,
    external_weights: bool = False,
    **shapes: Any,
) -> None:
    """Export as PyTorch's users do, with an open first size.

    :param external_weights: in a file of their own, as PyTorch does it by default.
    """
    torch.onnx.export(
        model,
        tuple(inputs.values()),
        path,
        input_names=list(inputs),
        output_names=outputs,
        dynamic_shapes=tuple(shapes.get(name, {0: ANY}) for name in inputs),
        dynamo=True,
        external_data=external_weights,
        verbose=False,
    )


# --- digits ---


class Convolutions(nn.Module):
    """Pixels [rows, 64] to the likeliest digit [rows] and the probabilities of all ten [rows, 10]."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)
        )
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(128, 32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Answer."""
        probabilities = torch.softmax(self.head(self.seen(pixels.reshape(-1, 1, 8, 8))), dim=1)
        return probabilities.argmax(dim=1), probabilities


def digits(folder: Path, version: int) -> tuple[Any, Tensor, Tensor, Tensor]:
    """Return a network that is trained on the version's part, its training rows, and golden pixels and labels."""
    with np.load(folder.parent / "digits.npz") as rows:
        pixels, label = torch.from_numpy(rows["pixels"]), torch.from_numpy(rows["label"])
    drawn = (
        torch.randperm(len(label) - GOLDEN, generator=torch.Generator().manual_seed(version))[:1300] + GOLDEN
    )
    right = label[drawn]
    network = fitted(
        Convolutions(),
        (pixels[drawn],),
        lambda found: nn.functional.nll_loss(torch.log(found[1] + 1e-9), right),
        120,
    )
    return network, pixels[drawn], pixels[:GOLDEN], label[:GOLDEN]


def script(folder: Path, version: int) -> None:
    """TorchScript."""
    network, _, pixels, label = digits(folder, version)
    torch.jit.trace(network, pixels[:2]).save(folder / "model.pt")
    keep(folder, pixels=pixels, label=label)


def exported(folder: Path, version: int) -> None:
    """A program of torch.export, whose first size is open."""
    network, _, pixels, label = digits(folder, version)
    program = torch.export.export(network, (pixels[:2],), dynamic_shapes=({0: torch.export.Dim("rows")},))
    torch.export.save(program, folder / "model.pt2")
    keep(folder, pixels=pixels, label=label)


def quantised(folder: Path, version: int) -> None:
    """int8 with QuantizeLinear and DequantizeLinear, as onnxruntime.quantization leaves it."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    network, training, pixels, label = digits(folder, version)

    class Rows(CalibrationDataReader):
        def __init__(self) -> None:
            self.left = iter({"pixels": training[start : start + 16].numpy()} for start in range(0, 320, 16))

        def get_next(self) -> Any:
            return next(self.left, None)

    whole, prepared = folder.with_suffix(".whole.onnx"), folder.with_suffix(".prepared.onnx")
    to_onnx(network, {"pixels": pixels[:2]}, ["label", "probabilities"], whole)
    quant_pre_process(whole, prepared)
    quantize_static(
        prepared,
        folder / "model.onnx",
        Rows(),
        quant_format=QuantFormat.QDQ,
        activation_type=QuantType.QInt8,
        weight_type=QuantType.QInt8,
        per_channel=True,
    )
    keep(folder, pixels=pixels, label=label)


# --- images in, images or boxes out ---


class Segments(nn.Module):
    """Images [rows, 1, height, width] to the scores of two classes for each pixel [rows, 2, height, width]."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.deep = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.Upsample(scale_factor=2))
        self.out = nn.Conv2d(9, 2, 3, padding=1)

    def forward(self, image: Tensor) -> Tensor:
        """Answer."""
        found: Tensor = self.out(torch.cat([self.deep(self.down(image)), image], dim=1))
        return found


def squares(seed: int, rows: int, side: int = 32) -> tuple[Tensor, Tensor, Tensor]:
    """Return noisy images with a bright square, the square's pixels, and its corners (x1, y1, x2, y2)."""
    numbers = np.random.default_rng(seed)
    images = numbers.normal(0.2, 0.1, (rows, 1, side, side)).astype(np.float32)
    masks, boxes = np.zeros((rows, side, side), np.int64), np.zeros((rows, 4), np.float32)
    for row in range(rows):
        size = int(numbers.integers(8, 16))
        left, top = numbers.integers(0, side - size, 2)
        images[row, 0, top : top + size, left : left + size] += numbers.uniform(0.5, 0.8)
        masks[row, top : top + size, left : left + size] = 1
        boxes[row] = left, top, left + size, top + size
    return torch.from_numpy(images), torch.from_numpy(masks), torch.from_numpy(boxes)


def segments(folder: Path, version: int) -> None:
    """A small network in the form of a U."""
    images, masks, _ = squares(version, 96)
    network = fitted(Segments(), (images,), lambda found: nn.functional.cross_entropy(found, masks), 60)
    golden, label, _ = squares(100, 40)
    shape = {0: ANY, 2: ANY, 3: ANY}
    to_onnx(network, {"image": golden[:2]}, ["masks"], folder / "model.onnx", image=shape)
    keep(folder, image=golden, label=label)


class Finds(nn.Module):
    """Images [rows, 1, 32, 32] to one box, its score and its class [rows, 1, 6]."""

    def __init__(self) -> None:
        super().__init__()
        self.look = nn.Sequential(nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten())
        self.box = nn.Sequential(nn.Linear(2048, 64), nn.ReLU(), nn.Linear(64, 4))

    def forward(self, images: Tensor) -> Tensor:
        """Answer."""
        box = 32 * torch.sigmoid(self.box(self.look(images)))
        score = torch.sigmoid(10 * (images.amax(dim=(1, 2, 3), keepdim=False) - 0.5)).unsqueeze(1)
        return torch.cat([box, score, torch.zeros_like(score)], dim=1).unsqueeze(1)


def finds(folder: Path, version: int) -> None:
    """A detector of one object."""
    images, _, boxes = squares(version, 1200)
    network = fitted(Finds(), (images,), lambda found: nn.functional.l1_loss(found[:, 0, :4], boxes), 150)
    golden, _, corners = squares(100, 60)
    to_onnx(network, {"images": golden[:2]}, ["detections"], folder / "model.onnx")
    label = torch.cat([corners, torch.zeros(len(corners), 1)], dim=1).unsqueeze(1)
    keep(folder, images=golden, label=label)


# --- sequences ---


class Encoder(nn.Module):
    """Tokens and their mask, [rows, tokens] each, to a vector of length 1 for each row [rows, 24]."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(200, 24)
        self.layer = nn.TransformerEncoderLayer(24, 2, 48, batch_first=True, dropout=0.0)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Answer."""
        weight = attention_mask.unsqueeze(2).to(torch.float32)
        found = self.layer(self.words(input_ids), src_key_padding_mask=attention_mask == 0)
        mean = (found * weight).sum(dim=1) / weight.sum(dim=1)
        return nn.functional.normalize(mean, dim=1)


class Reader(nn.Module):
    """The same tokens to the logits of four classes [rows, 4], and what it looked at [rows, 24]."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = Encoder()
        self.head = nn.Linear(24, 4)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor]:
        """Answer."""
        pooled = self.encoder(input_ids, attention_mask)
        return self.head(5 * pooled), pooled


def sentences(seed: int, rows: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return tokens and masks of sentences of different lengths, and what each is about."""
    numbers = np.random.default_rng(seed)
    about = numbers.integers(0, 4, rows)
    tokens, mask = np.zeros((rows, 16), np.int64), np.zeros((rows, 16), np.int64)
    for row in range(rows):
        length = int(numbers.integers(6, 17))
        own = numbers.random(length) < 0.6
        tokens[row, :length] = np.where(
            own, 1 + 25 * about[row] + numbers.integers(0, 25, length), numbers.integers(101, 200, length)
        )
        mask[row, :length] = 1
    return torch.from_numpy(tokens), torch.from_numpy(mask), torch.from_numpy(about)


def trained_reader(version: int) -> Any:
    """Return a reader that is trained on the version's sentences."""
    tokens, mask, about = sentences(version, 600)
    return fitted(Reader(), (tokens, mask), lambda found: nn.functional.cross_entropy(found[0], about), 60)


def reader(folder: Path, version: int) -> None:
    """A classifier of sentences with logits and a second output."""
    network = trained_reader(version)
    tokens, mask, about = sentences(100, 200)
    shape = {0: ANY, 1: ANY}
    to_onnx(
        network,
        {"input_ids": tokens[:2], "attention_mask": mask[:2]},
        ["logits", "pooled"],
        folder / "model.onnx",
        input_ids=shape,
        attention_mask=shape,
    )
    keep(folder, input_ids=tokens, attention_mask=mask, label=about)


def sentence_vectors(folder: Path, version: int) -> None:
    """A sentence encoder; the second version is the first one, tuned on a few more rows."""
    torch.manual_seed(1)
    network = trained_reader(1)
    if version > 1:
        tokens, mask, about = sentences(version, 200)
        optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
        for _ in range(3):
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(tokens, mask)[0], about).backward()
            optimizer.step()
    tokens, mask, about = sentences(100, 200)
    shape = {0: ANY, 1: ANY}
    to_onnx(
        network.encoder,
        {"input_ids": tokens[:2], "attention_mask": mask[:2]},
        ["sentence_vector"],
        folder / "model.onnx",
        external_weights=True,
        input_ids=shape,
        attention_mask=shape,
    )
    keep(folder, input_ids=tokens, attention_mask=mask, label=about)


class Forecast(nn.Module):
    """Series [rows, steps, 1] to the next value [rows, 1]."""

    def __init__(self, hidden: int = 24) -> None:
        super().__init__()
        self.remember = nn.LSTM(1, hidden, batch_first=True)
        self.head = nn.Linear(hidden, 1)

    def forward(self, series: Tensor) -> Tensor:
        """Answer."""
        found: Tensor = self.head(self.remember(series)[0][:, -1])
        return found


MODULE = '''
import torch
from torch import nn


class Forecast(nn.Module):
    """Series [rows, steps, 1] to the next value [rows, 1]."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.remember = nn.LSTM(1, hidden, batch_first=True)
        self.head = nn.Linear(hidden, 1)

    def forward(self, series):
        return self.head(self.remember(series)[0][:, -1])
'''


def waves(seed: int, rows: int) -> tuple[Tensor, Tensor]:
    """Return waves of different frequencies and phases, and their next values."""
    numbers = np.random.default_rng(seed)
    at = np.arange(25)[None] * numbers.uniform(0.2, 0.5, (rows, 1)) + numbers.uniform(0, 6, (rows, 1))
    wave = np.sin(at).astype(np.float32)
    return torch.from_numpy(wave[:, :24, None]), torch.from_numpy(wave[:, 24:])


def forecast(folder: Path, version: int) -> None:
    """A recurrent network as a state_dict, with its module beside it."""
    series, following = waves(version, 400)
    network = fitted(Forecast(), (series,), lambda found: nn.functional.mse_loss(found, following), 150)
    torch.save(network.state_dict(), folder / "weights.pt")
    (folder / "net.py").write_text(MODULE)
    golden, label = waves(100, 200)
    keep(folder, series=golden, label=label[:, 0])


FAMILIES: dict[str, Callable[[Path, int], None]] = {
    "digits-script": script,
    "digits-exported": exported,
    "digits-qdq": quantised,
    "squares-segments": segments,
    "squares-boxes": finds,
    "sentence-reader": reader,
    "sentence-vectors": sentence_vectors,
    "wave-forecast": forecast,
}

if __name__ == "__main__":
    main(Path(sys.argv[1]), [int(number) for number in sys.argv[2:]])
