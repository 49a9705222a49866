"""`python -m operators.controllers --config FILE`: the reconcilers of DagJob and Queue."""

from __future__ import annotations

import sys

from operators.controllers.config import load_controllers
from operators.controllers.process import ControllersProcess
from operators.serving.program import run_program


def main() -> int:
    """See run_program."""
    return run_program("operators.controllers", "The controllers.", load_controllers, ControllersProcess)


if __name__ == "__main__":
    sys.exit(main())
