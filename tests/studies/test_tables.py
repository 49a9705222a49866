"""Figures as Markdown."""

from __future__ import annotations

from rm_emulator.results.figures import Speedup
from studies import tables


def test_a_figure_is_shown_with_its_interval() -> None:
    assert tables.show(Speedup(value=1.234, ci95=[1.0, 1.5])) == "1.23 [1.00, 1.50]"
    assert tables.show(Speedup()) == "-"


def test_of_one_seed_a_figure_has_no_interval() -> None:
    assert tables.over_seeds([1.5], 1) == "1.5"
    assert tables.over_seeds([1.0, 2.0, 3.0], 1) == "2.0 [-0.5, 4.5]"
