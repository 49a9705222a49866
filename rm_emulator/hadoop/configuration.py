"""Hadoop's Configuration: properties of several files, later files over earlier ones, `final` and `${variables}`.

Rules of org.apache.hadoop.conf.Configuration: a later value replaces an earlier value unless the earlier was final;
`${name}` stands for another property, `${env.NAME}` for the environment, which is ignored here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from rm_emulator.hadoop.xml import Element, read_xml
from rm_emulator.issues import Issues, TraceError
from schedulers.core.errors import nearest

_VARIABLE: Final = re.compile(r"\$\{([^\}\$\s]+)\}")
#: Hadoop's own limit (Configuration.MAX_SUBST).
_MAX_SUBSTITUTIONS: Final = 20
_PARTS: Final = ("name", "value", "final", "source", "tag", "description")
_MAX_INT: Final = 2**31 - 1


class Property(msgspec.Struct, frozen=True):
    """A property as in its file; `value` None: the element has no value."""

    name: str
    value: str | None
    file: Path
    line: int
    final: bool = False


class Configuration:
    """Properties by name, with typed look-ups; mistakes are noted instead of raised.

    A look-up with a mistake gives the default, so that a single reading finds every mistake.
    """

    def __init__(self, issues: Issues) -> None:
        self.issues = issues
        self.notes: list[str] = []
        self._properties: dict[str, Property] = {}

    def read(self, path: Path) -> None:
        """Add a file's properties. Mistakes are noted in `issues`."""
        try:
            root = read_xml(path)
        except TraceError as error:
            self.issues.include(error)
            return
        if root.tag != "configuration":
            message = f"the root element is <{root.tag}> (expected <configuration>)"
            self.issues.add(message, file=path, line=root.line)
            return
        self._add_all(path, root)

    def _add_all(self, path: Path, root: Element) -> None:
        for element in root.children:
            if element.tag == "configuration":  # Hadoop reads them as if their properties stood here
                self._add_all(path, element)
            elif element.tag == "property":
                self._add(path, element)
            else:
                what = "files are not included" if element.tag.endswith("include") else "unknown element"
                self.issues.add(f"<{element.tag}>: {what} (accepted: <property>)", file=path, line=element.line)

    def _add(self, path: Path, element: Element) -> None:
        parts = dict(element.attributes)
        for child in element.children:
            if child.tag not in _PARTS:
                message = f"<{child.tag}> in <property> (accepted: {', '.join(_PARTS)})"
                self.issues.add(message, file=path, line=child.line, hint=nearest(child.tag, _PARTS))
            parts[child.tag] = child.text
        name = parts.get("name", "").strip()
        if not name:
            self.issues.add("a <property> without a <name>", file=path, line=element.line)
            return
        final = parts.get("final", "").strip().lower() == "true"
        earlier = self._properties.get(name)
        if earlier is not None and earlier.final:
            if earlier.value != parts.get("value"):
                self.notes.append(
                    f"{name} is final in {earlier.file.name}:{earlier.line}: the value in "
                    f"{path.name}:{element.line} has no effect"
                )
            return
        self._properties[name] = Property(name, parts.get("value"), path, element.line, final)

    def __iter__(self) -> Iterator[Property]:
        return iter(self._properties.values())

    def __contains__(self, name: str) -> bool:
        return name in self._properties

    def get(self, name: str) -> Property | None:
        """The property with variables not replaced, or None."""
        return self._properties.get(name)

    def wrong(self, name: str, message: str, hint: str | None = None) -> None:
        """Note a mistake in a property's value."""
        known = self._properties[name]
        self.issues.add(f"{name}: {message}", file=known.file, line=known.line, hint=hint)

    def text(self, name: str, default: str) -> str:
        """The value with its variables replaced, without white space around; the default without a value."""
        known = self._properties.get(name)
        if known is None or known.value is None:
            return default
        text = known.value
        for _ in range(_MAX_SUBSTITUTIONS):
            match = _VARIABLE.search(text)
            if match is None:
                return text.strip()
            value = self._properties.get(match[1])
            if value is None or value.value is None:
                self.wrong(name, f"'{known.value}' refers to {match[0]}, which no file sets")
                return default
            text = text[: match.start()] + value.value + text[match.end() :]
        self.wrong(name, f"'{known.value}' refers to itself, or through more than {_MAX_SUBSTITUTIONS} properties")
        return default

    def number(self, name: str, default: float, *, least: float, most: float) -> float:
        """A number from `least` to `most`."""
        text = self.text(name, "")
        if not text:
            return default
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not least <= value <= most:
            top = "" if most == float("inf") else f" to {most:g}"
            self.wrong(name, f"'{text}' is not accepted (expected a number from {least:g}{top})")
            return default
        return value

    def whole(self, name: str, default: int, *, least: int = 0, most: int = _MAX_INT) -> int:
        """A whole number from `least` to `most`."""
        text = self.text(name, "")
        if not text:
            return default
        if not re.fullmatch(r"[+-]?\d{1,18}", text) or not least <= int(text) <= most:
            self.wrong(name, f"'{text}' is not accepted (expected a whole number from {least} to {most})")
            return default
        return int(text)

    def flag(self, name: str, default: bool) -> bool:
        """`true` or `false`; Hadoop takes the default for anything else, so that typing mistakes stay hidden."""
        text = self.text(name, "").lower()
        if text in ("true", "false"):
            return text == "true"
        if text:
            self.wrong(name, f"'{text}' is not accepted (expected true or false)", nearest(text, ["true", "false"]))
        return default

    def choice(self, name: str, default: str, accepted: dict[str, str]) -> str:
        """The value in `accepted` for the word or class name in the file."""
        text = self.text(name, "")
        if not text:
            return default
        if text in accepted:
            return accepted[text]
        self.wrong(name, f"'{text}' is not accepted (expected {', '.join(accepted)})", nearest(text, accepted))
        return default
