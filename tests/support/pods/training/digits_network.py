"""Run by the Python of the image `pytorch`: trains a small network on handwritten digits, as TorchScript.

python digits_network.py FOLDER

Reads `training.npz` and `golden.npz` there (pixels FP32 [rows, 64] of 0 to 16, label INT64 [rows]); writes `model.pt`,
which takes pixels and answers the likeliest digit and the probabilities of all ten, and what it answers to the golden
rows, `answers.npz`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch

EPOCHS = 150


class Network(torch.nn.Module):
    """Pixels [rows, 64] to the likeliest digit [rows] and the probabilities of all ten [rows, 10]."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))

    def forward(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        probabilities = torch.softmax(self.layers(pixels / 16.0), dim=1)
        return probabilities.argmax(dim=1), probabilities


def main(folder: Path) -> None:
    """Trains and writes."""
    torch.manual_seed(0)
    rows = np.load(folder / "training.npz")
    pixels, label = torch.from_numpy(rows["pixels"]), torch.from_numpy(rows["label"])
    network = Network()
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(EPOCHS):
        optimizer.zero_grad()
        _, probabilities = network(pixels)
        torch.nn.functional.nll_loss(torch.log(probabilities + 1e-9), label).backward()
        optimizer.step()
    script = torch.jit.trace(network.eval(), pixels[:2])
    script.save(folder / "model.pt")
    golden = torch.from_numpy(np.load(folder / "golden.npz")["pixels"])
    answered, probabilities = script(golden)
    np.savez(folder / "answers.npz", label=answered.numpy(), probabilities=probabilities.detach().numpy())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
