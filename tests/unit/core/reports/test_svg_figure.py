"""What the drawings of reports have in common."""

from __future__ import annotations

import pytest
from matplotlib.figure import Figure

from slipway_core.reports.svg_figure import begin_at_zero


@pytest.mark.parametrize("x", [False, True])
def test_marks_of_about_one_height_are_drawn_whole(x: bool) -> None:
    """Above the highest mark a twentieth of the axis stays free, though the marks lie close together."""
    plot = Figure().add_subplot()
    plot.plot((100.0, 101.0), (1.68, 1.78), marker="o")
    begin_at_zero(plot, x=x)
    bottom, top = plot.get_ylim()
    left, right = plot.get_xlim()
    assert bottom == 0
    assert top >= 1.78 * 1.04
    assert bool(left == 0) is x
    assert right > 101
    assert not x or right >= 101 * 1.04
