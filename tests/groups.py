"""Which test files run in one worker, one after the other: those that share what is dear to start.

The control plane's are two: what kills parts of it for minutes, and all others. Two cores carry no third control plane:
with one more, waits of tests that are long enough otherwise ran out.
"""

from __future__ import annotations

import re
from typing import Final

CONTROL_PLANE: Final = "_controlplane.py"
#: Files tests/kubernetes/test_NAME_controlplane.py; all others of this kind are of the group `whole`.
KILLING: Final = ("chaos", "outage", "production")


def group(file: str) -> str | None:
    """The group of a file, by its path from the root; None for one whose tests go to any worker."""
    if file.startswith("tests/browser/"):
        return "browser"
    if not file.endswith(CONTROL_PLANE):
        return None
    name = file.rpartition("/test_")[2].removesuffix(CONTROL_PLANE)
    return "killing" if name in KILLING else "whole"


def scope(test: str) -> str:
    """What goes to one worker as a whole: a group, the promises of one subject, which look at the same run, a test."""
    return group(test.partition("::")[0]) or re.sub(r"-check_\w+\]$", "]", test)
