"""Which tests run in one worker, one after the other: those that share what is dear to start.

The control plane's are three, by the fixture that gives them one: a worker has one control plane at a time.
"""

from __future__ import annotations

import re
from typing import Final

CONTROL_PLANE: Final = "_controlplane.py"
#: Files tests/kubernetes/test_NAME_controlplane.py that use one with all others of their group (`devcluster`): most ask
#: its API server alone.
SHARED: Final = (
    "cache",
    "conditions",
    "crds",
    "devcluster",
    "extender_golden",
    "lease",
    "login",
    "manifests",
    "policies",
    "rbac",
    "releases",
    "rights",
    "snapshots",
    "tenants",
)
#: Those that start their own, because they kill parts of it or want it bare. All others have one that is emptied for
#: each (`alone`).
OWN: Final = ("chaos", "faults", "outage", "podgroups", "readme", "tutorial")
#: Of these others those that follow in the worker of OWN, which then has another that is emptied for each: the others
#: alone take as long as all of OWN.
AFTER_OWN: Final = ("controllers", "guide", "kubectl", "neighbours", "simulate")
#: Files tests/learn/test_NAME.py with what numba compiles for half a minute: once, as one worker has them all.
COMPILED: Final = ("arithmetic", "constants", "fast", "fast_containers", "train")
_IN_PARTS: Final = ("tests/contract/test_contracts.py", "tests/same/")
_PAGES: Final = "tests/test_pages.py"
#: Groups in the order in which they are begun, and the one file that takes as long as a group.
_BEGUN: Final = ("own", "after own", "alone", "shared", _PAGES)


def group(file: str) -> str | None:
    """The group of a file, by its path from the root; None for one whose tests go to any worker."""
    if file.startswith("tests/browser/"):
        return "browser"
    if file in {f"tests/learn/test_{name}.py" for name in COMPILED}:
        return "compiled"
    if not file.endswith(CONTROL_PLANE):
        return None
    name = file.rpartition("/test_")[2].removesuffix(CONTROL_PLANE)
    named = {"shared": SHARED, "own": OWN, "after own": AFTER_OWN}
    return next((of for of, files in named.items() if name in files), "alone")


def rank(file: str) -> int:
    """The order in which files are begun: those of a control plane first, the longest wait before all others.

    They mostly wait, so that all other tests run in their pauses; xdist alone would begin with the largest group, and
    with the kills, which are few and take minutes, last. Next come the commands of all pages, one after the other.
    """
    own = _PAGES if file == _PAGES else group(file)
    return _BEGUN.index(own) if own in _BEGUN else len(_BEGUN)


def scope(test: str) -> str:
    """What goes to one worker as a whole: a group, or a file, whose fixtures are then made once.

    Of files that take minutes a part: of the contract the promises of one subject, which look at the same run; of
    tests/same a test.
    """
    file = test.partition("::")[0]
    if file.startswith(_IN_PARTS):
        return re.sub(r"-check_\w+\]$", "]", test)
    return (group(file) or file).removeprefix("after ")
