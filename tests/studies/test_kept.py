"""A study's cells are measured once, and anew when they or the code differ."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from rm_emulator import api
from studies.kept import measured


class Square(msgspec.Struct, frozen=True):
    """A measured cell."""

    value: int


calls: list[int] = []


def square(number: int, error: float | None = None) -> Square:
    """Measures a cell, and notes that it was asked."""
    calls.append(number)
    if error is not None:
        raise ValueError(error)
    return Square(number * number)


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    calls.clear()


def test_a_kept_cell_is_not_measured_again(tmp_path: Path) -> None:
    assert measured(tmp_path, Square, square, [(2,), (3,)]) == [Square(4), Square(9)]
    assert measured(tmp_path, Square, square, [(3,), (4,), (2,)]) == [Square(9), Square(16), Square(4)]
    assert calls == [2, 3, 4]


def test_another_state_of_the_product_measures_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured(tmp_path, Square, square, [(2,)])
    monkeypatch.setattr(api, "code_digest", lambda: "another")
    measured(tmp_path, Square, square, [(2,)])
    assert calls == [2, 2]


def test_cells_before_a_failed_one_are_kept(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"0\.5"):
        measured(tmp_path, Square, square, [(2,), (3, 0.5)])
    measured(tmp_path, Square, square, [(2,)])
    assert calls == [2, 3]


def test_processes_measure_what_one_does(tmp_path: Path) -> None:
    cells = [(number,) for number in range(4)]
    alone = measured(tmp_path / "one", Square, square, cells)
    assert measured(tmp_path / "two", Square, square, cells, jobs=2) == alone
    assert calls == [0, 1, 2, 3]  # none in this process, the second time
