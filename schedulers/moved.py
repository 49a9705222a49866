"""Old import paths of the kit: plug-ins written before `schedulers.kit` was a package of its own go on working."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

#: Modules that were in `schedulers.core` once.
MOVED: Final = frozenset(
    {
        "around",
        "assigned",
        "bundles",
        "deficits",
        "forecast",
        "histogram",
        "history",
        "levels",
        "lines",
        "ordered",
        "parties",
        "partition",
        "sampling",
    }
)
_OLD, _NEW = "schedulers.core.", "schedulers.kit."


class _Moved(MetaPathFinder, Loader):
    """Finds a moved module under its old name; asked last, so that existing modules are found as fast as before."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.startswith(_OLD) and fullname.removeprefix(_OLD) in MOVED:
            return ModuleSpec(fullname, self)
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Put the new module into `sys.modules`, read by the import system afterwards: both names are one module."""
        sys.modules[module.__name__] = importlib.import_module(_NEW + module.__name__.removeprefix(_OLD))


if not any(isinstance(finder, _Moved) for finder in sys.meta_path):
    sys.meta_path.append(_Moved())
