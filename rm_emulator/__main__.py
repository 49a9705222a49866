"""The `rm-emulator` command, also as `python -m rm_emulator`.

A module apart from `cli`, whose imports take a third of a second: Ctrl-C ends them without a traceback.
"""

from __future__ import annotations

import os
import signal
from typing import NoReturn


def main() -> NoReturn:
    """The console script."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a shell's background job ignores Ctrl-C
        signal.signal(signal.SIGINT, _leave)
    from rm_emulator import cli

    cli.main()


def _leave(number: int, frame: object) -> NoReturn:
    # At once, because an exception inside an import may be taken for a missing module. Nothing is written as yet.
    os._exit(130)


if __name__ == "__main__":
    main()
