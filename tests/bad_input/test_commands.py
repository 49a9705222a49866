"""Bad values of every option of every command: refused with one clear message, and nothing is written.

250 cases in CI, all of them by night.
"""

from __future__ import annotations

import os
import shutil
import signal
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NoReturn

import pytest

from tests.bad_input import place
from tests.bad_input.commands import GOOD, Case, commands, drawn, every
from tests.learn.conftest import WITHOUT_TORCH

IN_CI: Final = 250
#: No case takes longer, s.
LIMIT_S: Final = 20
#: Lines of a message: a file of another kind has many mistakes.
LINES: Final = 20
#: So much of a long value is seen at least, characters.
SEEN: Final = 20


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        cases = every() if metafunc.config.getoption("--nightly") else drawn(IN_CI)
        metafunc.parametrize("case", [pytest.param(case, id=str(case)) for case in cases])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder as it is before each case."""
    folder = tmp_path_factory.mktemp("made") / "place"
    folder.mkdir()
    before = Path.cwd()
    os.chdir(folder)
    try:
        place.write(folder)
    finally:
        os.chdir(before)
    return folder


@pytest.fixture(scope="module")
def used(made: Path) -> Path:
    """The folder in which all cases run."""
    folder = made.parent / "used" / "place"
    _fill(folder, made)
    return folder


def _fill(folder: Path, made: Path) -> None:
    shutil.rmtree(folder.parent, ignore_errors=True)
    shutil.copytree(made, folder, symlinks=True, copy_function=_copied)


def _copied(source: str, target: str) -> object:
    return os.mkfifo(target) if Path(source).is_fifo() else shutil.copy2(source, target)


@pytest.fixture(autouse=True)
def _in_time() -> Iterator[None]:
    def stop(number: int, frame: object) -> NoReturn:
        pytest.fail(f"takes longer than {LIMIT_S} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(LIMIT_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def contents(folder: Path) -> dict[str, tuple[int, int]]:
    """(Size, time of change in ns) of everything below a folder; nothing of the folders themselves."""
    found = {}
    for path in folder.rglob("*"):
        status = path.lstat()
        found[str(path.relative_to(folder))] = (
            (0, 0) if stat.S_ISDIR(status.st_mode) else (status.st_size, status.st_mtime_ns)
        )
    return found


def test_every_command_has_a_call_that_works() -> None:
    assert {name for name, _ in commands()} == set(GOOD)


@pytest.mark.drawn(of=4)
def test_a_value_is_taken_or_refused_with_one_clear_message(
    case: Case, made: Path, used: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    if case.command == "train" and WITHOUT_TORCH:
        pytest.skip("needs torch: pip install -e '.[learn]'")
    monkeypatch.chdir(used)
    before = contents(used.parent)
    try:
        code = place.call(list(case.words))
    finally:
        if written := contents(used.parent) != before:
            _fill(used, made)
    out, err = capfd.readouterr()
    assert "Traceback" not in out + err
    if case.takes and code in (0, 1):
        return
    assert code == 2, out + err
    assert not written
    assert out == ""
    assert 1 <= len(err.splitlines()) <= LINES, err
    assert any(name in err for name in case.names), err
    assert not case.seen or any(form in err for form in case.seen), err
