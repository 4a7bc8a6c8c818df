"""Run by the Python of the image `pytorch`: writes a small network in three formats, to a folder.

python pytorch.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch

MODULE = '''
import torch


class Net(torch.nn.Module):
    """Pixels [rows, 64] to the probabilities of ten digits [rows, 10]."""

    def __init__(self, hidden: int = 16) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(64, hidden), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(hidden, 10)
        )

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.layers(pixels), dim=1)
'''


def main(folder: Path) -> None:
    """Writes everything."""
    torch.manual_seed(0)
    (folder / "net.py").write_text(MODULE)
    sys.path.insert(0, str(folder))
    module = __import__("net").Net(hidden=24).eval()
    rows = torch.rand(100, 64)
    np.savez(folder / "pixels.npz", pixels=rows.numpy(), label=np.zeros(100, np.int64))
    np.save(folder / "answers.npy", module(rows).detach().numpy())
    torch.save(module.state_dict(), folder / "weights.pt")
    torch.jit.trace(module, rows[:2]).save(folder / "script.pt")
    free = ({0: torch.export.Dim("rows")},)
    torch.export.save(torch.export.export(module, (rows[:2],), dynamic_shapes=free), folder / "free.pt2")
    torch.export.save(torch.export.export(module, (rows[:2],)), folder / "fixed.pt2")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
