"""The images of the demo: always the same, held apart, and a share of the live ones brighter."""

from __future__ import annotations

import numpy as np

from slipway_digit_models.images import (
    BRIGHT_SHARE,
    BRIGHTEST,
    BRIGHTEST_LIVE,
    live_images,
    training_and_held_out,
)


def test_training_and_held_out_are_disjoint_and_complete() -> None:
    """No drawing is both trained on and held out, and none of the data set is lost."""
    training, held_out = training_and_held_out()
    drawings = {image.tobytes() for image in training.pixels}
    assert not drawings & {image.tobytes() for image in held_out.pixels}
    assert len(training) + len(held_out) == 1797


def test_every_digit_is_held_out() -> None:
    """The golden set shows all ten digits."""
    _, held_out = training_and_held_out()
    assert set(held_out.label.tolist()) == set(range(10))


def test_live_images_are_the_same_at_every_call() -> None:
    """Two clients send the same images in the same order."""
    once, again = live_images(), live_images()
    np.testing.assert_array_equal(once.images.pixels, again.images.pixels)
    np.testing.assert_array_equal(once.bright, again.bright)


def test_only_bright_images_leave_the_training_range() -> None:
    """An image is beyond the training range exactly when the brighter scanner read it, and a fifth or so are."""
    live = live_images()
    maximum = live.images.pixels.max(axis=1)
    np.testing.assert_array_equal(maximum > BRIGHTEST, live.bright)
    assert set(maximum[live.bright].tolist()) == {float(BRIGHTEST_LIVE)}
    assert abs(float(live.bright.mean()) - BRIGHT_SHARE) < 0.01


def test_the_first_rows_can_be_taken() -> None:
    """A smaller training set is the beginning of the larger one."""
    training, _ = training_and_held_out()
    few = training.first(10)
    assert len(few) == 10
    np.testing.assert_array_equal(few.pixels, training.pixels[:10])
