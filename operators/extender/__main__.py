"""`python -m operators.extender --config FILE`: the brain and its extender."""

from __future__ import annotations

import sys

from operators.extender.config import load_brain
from operators.extender.history import HistoryUnavailable
from operators.extender.process import BrainProcess
from operators.serving.program import run_program


def main() -> int:
    """See run_program."""
    return run_program("operators.extender", "The scheduler's brain.", load_brain, BrainProcess, HistoryUnavailable)


if __name__ == "__main__":
    sys.exit(main())
