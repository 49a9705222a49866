"""JSON nested too deeply to be read: its depths are left out.

The API server keeps up to 10,000 levels below a field open to anything, and every recursive parser fails long before.
No object of Kubernetes' own has more than about 20.
"""

from __future__ import annotations

import re
from typing import Any, Final

#: Levels of a document, such as a list of objects, that are kept.
DEEPEST: Final = 64
_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)


def cut(text: bytes, deepest: int = DEEPEST) -> bytes:
    """The same JSON with null for everything below so many levels. Works without recursion; O(length)."""
    parts: list[bytes] = []
    depth = kept = 0
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if mark in (b"[", b"{"):
            depth += 1
            if depth == deepest + 1:
                parts += [text[kept : token.start()], b"null"]
                kept = len(text)  # nothing, until this closes
        elif mark in (b"]", b"}"):
            if depth == deepest + 1:
                kept = token.end()
            depth -= 1
    return b"".join([*parts, text[kept:]])


def is_deep(value: Any, deepest: int = DEEPEST) -> bool:
    """Whether a value from JSON has more levels than `deepest`. Works without recursion."""
    level = [value]
    for _ in range(deepest + 1):
        level = [
            part
            for each in level
            if isinstance(each, dict | list)
            for part in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return False
    return True
