"""`python -m forecaster --config FILE`: writes when DagJobs will start and end."""

from __future__ import annotations

import sys

from forecaster.config import load_forecaster
from forecaster.process import ForecasterProcess
from operators.serving.program import run_program


def main() -> int:
    """See run_program."""
    return run_program("forecaster", "When will DagJobs start and end?", load_forecaster, ForecasterProcess)


if __name__ == "__main__":
    sys.exit(main())
