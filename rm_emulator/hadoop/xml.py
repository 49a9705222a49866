"""XML as small trees with line numbers. Document types are refused, so there are no entities to expand."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from xml.parsers import expat

import msgspec

from rm_emulator.workload.tables import one, read_bytes

#: Hadoop's files are four levels deep; a tree deeper than this is no configuration.
MAX_DEPTH: Final = 64


class Element(msgspec.Struct, kw_only=True):
    """An element."""

    tag: str
    line: int
    """1-based, of the start."""
    attributes: dict[str, str]
    children: list[Element] = []
    text: str = ""
    """The characters of the element itself, without white space around."""

    def child(self, tag: str) -> Element | None:
        """The first child with the tag, or None."""
        return next((c for c in self.children if c.tag == tag), None)


def read_xml(path: Path) -> Element:
    """The root element of a file.

    Raises TraceError with the line for a missing file, other content than XML, a document type, or too deep nesting.
    """
    return _Reader(path).read(read_bytes(path))


class _Reader:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._open: list[Element] = []
        self._root: Element | None = None
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters
        self._parser.StartDoctypeDeclHandler = self._document_type

    def read(self, data: bytes) -> Element:
        try:
            self._parser.Parse(data, True)
        except expat.ExpatError as error:
            what = expat.ErrorString(error.code)
            raise one(self._path, f"not XML: {what} (column {error.offset + 1})", line=error.lineno) from None
        except (LookupError, ValueError) as error:  # an encoding that Python does not have
            raise one(self._path, f"not XML: {error} (save it as UTF-8)", line=1) from None
        assert self._root is not None, "expat ends without an error only after a root element"
        return self._root

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        line = self._parser.CurrentLineNumber
        if len(self._open) >= MAX_DEPTH:
            raise one(self._path, f"elements nested deeper than {MAX_DEPTH}: not a Hadoop configuration", line=line)
        element = Element(tag=tag, line=line, attributes=attributes)
        if self._open:
            self._open[-1].children.append(element)
        else:
            self._root = element
        self._open.append(element)

    def _end(self, tag: str) -> None:
        element = self._open.pop()
        element.text = element.text.strip()

    def _characters(self, text: str) -> None:
        self._open[-1].text += text

    def _document_type(self, name: str, *_: object) -> None:
        message = f"declares a document type (<!DOCTYPE {name}>), which is refused: remove it"
        raise one(self._path, message, line=self._parser.CurrentLineNumber)
