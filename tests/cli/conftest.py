"""The command line, called as the console script calls it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from rm_emulator.cli import main


class Said(NamedTuple):
    """What a command left: exit code, standard output, standard error."""

    code: int
    out: str
    err: str


Command = Callable[..., Said]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs one command in this process."""

    def _command(*arguments: object) -> Said:
        monkeypatch.setattr("sys.argv", ["rm-emulator", *map(str, arguments)])
        monkeypatch.setattr("signal.signal", lambda *_: None)
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return Said(int(ended.value.code or 0), said.out, said.err)

    return _command
