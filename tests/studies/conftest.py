"""The pages of studies are made from figures; nobody looks at the reports of their runs."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True, scope="module")
def _no_report(no_report: None) -> None:
    """Half the time of a run."""
