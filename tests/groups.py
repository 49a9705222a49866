"""Which test files run in one worker, one after the other: those that share what is dear to start.

The control plane's are three: what asks the API server alone, what schedules everything that it finds, and what kills
parts of it for minutes. So there are as many control planes at a time, and no more.
"""

from __future__ import annotations

from typing import Final

CONTROL_PLANE: Final = "_controlplane.py"
#: Files tests/kubernetes/test_NAME_controlplane.py; all others of this kind are of the group `whole`.
API: Final = (
    *("cache", "conditions", "crds", "devcluster", "extender_golden", "lease", "login", "manifests", "policies"),
    *("rbac", "releases", "snapshots", "tenants"),
)
KILLING: Final = ("chaos", "outage", "production")


def group(file: str) -> str | None:
    """The group of a file, by its path from the root; None for one whose tests go to any worker."""
    if file.startswith("tests/browser/"):
        return "browser"
    if not file.endswith(CONTROL_PLANE):
        return None
    name = file.rpartition("/test_")[2].removesuffix(CONTROL_PLANE)
    return "api" if name in API else "killing" if name in KILLING else "whole"
