"""The handwritten digits of the demo: scikit-learn's bundled UCI set, 8 x 8 pixels of intensity 0 to 16.

Three sets come from it, always the same ones: rows to train on, rows held out (the golden set), and what
clients send: the held-out rows again, a share of them as a brighter scanner would have read them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

SIDE = 8
"""Pixels along one side of an image."""

BRIGHTEST = 16
"""The highest intensity in the data set, hence in training."""

BRIGHTEST_LIVE = 20
"""The highest intensity a client may send: the brighter scanner's range."""

BRIGHT_SHARE = 0.22
"""Share of live images that come from the brighter scanner."""

_HELD_OUT_SHARE = 0.25
_SEED = 7


@dataclass(frozen=True)
class Images:
    """Images and what they show: `pixels` FP32 [N, 64] of intensities, `label` INT64 [N] of 0 to 9."""

    pixels: npt.NDArray[np.float32]
    label: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.label)

    def first(self, rows: int) -> Images:
        """Return the first `rows` images, or all where there are fewer."""
        return Images(self.pixels[:rows], self.label[:rows])


@dataclass(frozen=True)
class LiveImages:
    """What clients send: `images`, and for each row whether the brighter scanner read it (bool [N])."""

    images: Images
    bright: npt.NDArray[np.bool_]


@cache
def training_and_held_out() -> tuple[Images, Images]:
    """Return the two disjoint parts of the data set, each stratified by digit: about 1350 and 450 images."""
    from sklearn.datasets import load_digits  # most of this package's users need no scikit-learn
    from sklearn.model_selection import train_test_split

    digits = load_digits()
    rows = np.arange(len(digits.target))
    train, held_out = train_test_split(
        rows, test_size=_HELD_OUT_SHARE, random_state=_SEED, stratify=digits.target
    )
    pixels, label = digits.data.astype(np.float32), digits.target.astype(np.int64)
    return Images(pixels[train], label[train]), Images(pixels[held_out], label[held_out])


def live_images() -> LiveImages:
    """Return the held-out images in a fixed random order, `BRIGHT_SHARE` of them at the brighter scale.

    A bright image is the same drawing at 20/16 of its intensity, so its maximum is beyond what any
    training row reaches.
    """
    _, held_out = training_and_held_out()
    random = np.random.default_rng(_SEED)
    order = random.permutation(len(held_out))
    pixels, label = held_out.pixels[order].copy(), held_out.label[order]
    bright = np.zeros(len(label), dtype=np.bool_)
    bright[random.choice(len(label), size=round(BRIGHT_SHARE * len(label)), replace=False)] = True
    # The scanner scales to its own full range, so that the brightest pixel is always 20.
    brightest = pixels[bright].max(axis=1, keepdims=True)
    pixels[bright] = np.rint(pixels[bright] * (BRIGHTEST_LIVE / brightest))
    return LiveImages(Images(pixels, label), bright)
