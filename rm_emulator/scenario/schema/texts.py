"""The texts below the fields of classes, read from the source when a schema or a page is made.

Pydantic's own `use_attribute_docstrings` reads them while a class is made: for the sixty blocks a third of a second at
every start.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Mapping
from functools import cache
from itertools import pairwise


def said(cls: type) -> Mapping[str, str]:
    """The text below each field of a class, inherited fields included."""
    found: dict[str, str] = {}
    for each in reversed(cls.__mro__):
        found |= _said_in(each.__module__).get(each.__name__, {})
    return found


@cache
def _said_in(module: str) -> Mapping[str, Mapping[str, str]]:
    """The texts below fields, by class and field."""
    if not module.startswith(("schedulers.", "rm_emulator.")):
        return {}
    found = {}
    for cls in ast.parse(inspect.getsource(sys.modules[module])).body:
        if isinstance(cls, ast.ClassDef):
            found[cls.name] = {
                field.target.id: inspect.cleandoc(str(text.value.value))
                for field, text in pairwise(cls.body)
                if isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(text, ast.Expr)
                and isinstance(text.value, ast.Constant)
            }
    return found
