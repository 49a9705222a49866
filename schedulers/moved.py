"""Old import paths of the kit: plug-ins written before a module was moved or renamed go on working."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

_CORE, _KIT = "schedulers.core.", "schedulers.kit."
#: The present name of each module that had another name once.
MOVED: Final = {
    _CORE + name: _KIT + name
    for name in (
        "around",
        "assigned",
        "bundles",
        "deficits",
        "forecast",
        "histogram",
        "history",
        "levels",
        "ordered",
        "parties",
        "partition",
        "sampling",
    )
} | {package + "lines": _KIT + "node_queues" for package in (_CORE, _KIT)}


class _Moved(MetaPathFinder, Loader):
    """Finds a moved module under its old name; asked last, so that existing modules are found as fast as before."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        """Put the new module into `sys.modules`, read by the import system afterwards: both names are one module."""
        sys.modules[module.__name__] = importlib.import_module(MOVED[module.__name__])


if not any(isinstance(finder, _Moved) for finder in sys.meta_path):
    sys.meta_path.append(_Moved())
