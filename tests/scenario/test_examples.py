from __future__ import annotations

from pathlib import Path

import pytest

from rm_emulator.issues import InvalidInput
from rm_emulator.scenario import examples
from rm_emulator.scenario.check import check
from rm_emulator.scenario.load import load

NAMES = [name for name, _ in examples.summaries()]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.drawn(of=16)
def test_every_example_is_valid(name: str) -> None:
    assert check(load(name)).workload.jobs


@pytest.mark.parametrize(("name", "about"), examples.summaries())
def test_every_example_says_in_its_first_line_what_it_shows(name: str, about: str) -> None:
    assert about.endswith(".")
    assert len(about) < 110


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_called_by_its_file_s_name(name: str) -> None:
    assert load(name).scenario.metadata.name == name


def test_a_copied_example_brings_what_it_reads(tmp_path: Path) -> None:
    copied = examples.copy("my-trace", tmp_path / "new")
    assert [path.name for path in copied] == ["my-trace.yaml", "my-trace.csv"]
    assert check(load(copied[0])).workload.jobs


@pytest.mark.slow
@pytest.mark.drawn(of=8)
def test_all_starters_can_be_had_in_one_folder(tmp_path: Path) -> None:
    copied = [examples.copy(name, tmp_path)[0] for name in NAMES]
    assert all(check(load(starter)).workload.jobs for starter in copied)


def test_nothing_is_copied_over_a_file(tmp_path: Path) -> None:
    (tmp_path / "my-trace.csv").write_text("mine")
    with pytest.raises(InvalidInput, match="is there already"):
        examples.copy("my-trace", tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["my-trace.csv"]


def test_an_unknown_example_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="did you mean 'hello'"):
        examples.copy("helo", tmp_path)
