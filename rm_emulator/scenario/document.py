"""YAML with positions: one pass of libyaml builds the tree, the source of values and of the places of mistakes.

The dialect is YAML 1.2's core schema, because 1.1's surprises cost users results: there `1e3` is text,
`12:30:00` is 45000, `no` is false, `017` is 15, and a repeated key silently keeps its last value
(yaml/pyyaml, `resolver.py`). Here repeated keys are mistakes, and a whole number with an exponent (`1e3`) is read as
a whole number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from rm_emulator.files import check_depth, is_odd
from rm_emulator.issues import InvalidInput, Issue, show_path

_BOOL = re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$")
_NULL = re.compile(r"^(?:~|null|Null|NULL|)$")
_INT = re.compile(r"^(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$")
_FLOAT = re.compile(
    r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
)
_TAG: Final = "tag:yaml.org,2002:"
_MAX_DIGITS: Final = 100
#: Values that aliases may add to those that are written, and how deep they may lead.
_MAX_REPEATED: Final = 1_000_000
_MAX_LEVELS: Final = 300


class _Loader(yaml.CSafeLoader):
    """libyaml's parser with the resolvers and constructors of YAML 1.2's core schema (and `<<` merges)."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 (PyYAML's own form)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """As PyYAML; a value contrary to its tag is a mistake at the value's place."""
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError, TypeError):
            problem = f"{node.value!r:.60} is not {node.tag.replace(_TAG, '!!')}"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from None


_Loader.add_implicit_resolver(_TAG + "bool", _BOOL, list("tTfF"))
_Loader.add_implicit_resolver(_TAG + "null", _NULL, ["~", "n", "N", ""])
_Loader.add_implicit_resolver(_TAG + "int", _INT, list("-+0123456789"))
_Loader.add_implicit_resolver(_TAG + "float", _FLOAT, list("-+.0123456789"))
_Loader.add_implicit_resolver(_TAG + "merge", re.compile(r"^<<$"), ["<"])


def _int(loader: _Loader, node: yaml.ScalarNode) -> int:
    text = str(node.value)
    if len(text) > _MAX_DIGITS:
        raise yaml.constructor.ConstructorError(None, None, "a number of too many digits", node.start_mark)
    return int(text, 0) if text[:2] in ("0o", "0x") else int(text)


def _float(loader: _Loader, node: yaml.ScalarNode) -> int | float:
    text = str(node.value).lower()
    value = float(text.replace(".inf", "inf").replace(".nan", "nan"))
    if "e" in text and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


_Loader.add_constructor(_TAG + "int", _int)
_Loader.add_constructor(_TAG + "float", _float)


class Document:
    """One YAML document: `data` in plain Python values, and `locate` to find any value in the text.

    root: None for data without a text; file is then ''.
    """

    def __init__(self, file: str, data: Any, root: yaml.Node | None) -> None:
        self.file, self.data, self._root = file, data, root

    def locate(self, path: Sequence[str | int], *, key: bool = False) -> tuple[int, int] | tuple[None, None]:
        """Line and column (1-based) of the deepest part of `path` found in the text.

        key: the place of the last key itself rather than of its value.
        """
        if self._root is None:
            return None, None
        node, mark = self._root, self._root.start_mark
        for step, part in enumerate(path):
            child = _child(node, part)
            if child is None:
                break
            key_node, node = child
            mark = (key_node if key and step == len(path) - 1 else node).start_mark
        return mark.line + 1, mark.column + 1

    def issue(self, path: Sequence[str | int], message: str, hint: str = "", *, key: bool = False) -> Issue:
        """A mistake at `path` of the document."""
        line, col = self.locate(path, key=key)
        return Issue(self.file, message, line, col, show_path(path), hint)


def read_documents(path: Path) -> list[Document]:
    """All documents of a YAML file. Raises InvalidInput with every mistake of the YAML itself."""
    if is_odd(path):
        raise InvalidInput([Issue(str(path), "is not a regular file: expected YAML")])
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InvalidInput([Issue(str(path), f"cannot be read: {error.strerror or error}")]) from None
    return parse_documents(raw, str(path))


def parse_documents(raw: bytes, file: str) -> list[Document]:
    """As `read_documents`, from bytes; `file` names them in messages."""
    text = _decode(raw, file)
    documents: list[Document] = []
    issues: list[Issue] = []
    try:
        check_depth(text)
        loader = _Loader(text)
        while loader.check_node():
            node = loader.get_node()
            if node is None:  # an empty document between two separators
                continue
            _check_aliases(node)
            issues += _repeated_keys(node, file)
            documents.append(Document(file, loader.construct_document(node), node))
    except yaml.MarkedYAMLError as error:
        issues.append(_syntax(error, text, file))
    except yaml.reader.ReaderError as error:
        line, col = _place(text, int(error.position))
        issues.append(Issue(file, f"not allowed in YAML: character {chr(error.character)!r}", line, col))
    except RecursionError:
        issues.append(Issue(file, "nested too deeply", 1, 1))
    if issues:
        raise InvalidInput(issues)
    documents = [d for d in documents if d.data is not None]
    if not documents:
        raise InvalidInput([Issue(file, "the file is empty", 1, 1)])
    return documents


def parse_value(text: str) -> Any:
    """One YAML value (of `--set path=value`). Raises ValueError."""
    try:
        return parse_documents(text.encode(), "value")[0].data if text.strip() not in ("", "null", "~") else None
    except InvalidInput as error:
        raise ValueError(error.issues[0].message) from None


def _decode(raw: bytes, file: str) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        col = error.start - (raw.rfind(b"\n", 0, error.start) + 1) + 1
        message = f"not UTF-8: byte 0x{raw[error.start]:02x} (save the file as UTF-8)"
        raise InvalidInput([Issue(file, message, line, col)]) from None


def _place(text: str, position: int) -> tuple[int, int]:
    return text.count("\n", 0, position) + 1, position - (text.rfind("\n", 0, position) + 1) + 1


def _syntax(error: yaml.MarkedYAMLError, text: str, file: str) -> Issue:
    mark = error.problem_mark or error.context_mark
    lines = text.splitlines() or [""]
    line, col = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    if line > len(lines):  # libyaml puts the end of the text after its last line break
        line, col = len(lines), len(lines[-1]) + 1
    problem = error.problem or "cannot be read"
    here = lines[line - 1][col - 1 : col]
    if here == "\t":
        return Issue(file, "not YAML: a tab where spaces are expected", line, col, "", "indent with spaces")
    if "cannot start any token" in problem:
        return Issue(file, f"not YAML: nothing can start with {here!r}", line, col, "", "put the text in quotes")
    if "mapping values are not allowed" in problem:
        hint = "put text that contains ': ' in quotes, or check the indentation"
        return Issue(file, "not YAML: a second ':' in one line", line, col, "", hint)
    if "constructor for the tag" in problem:
        return Issue(file, f"not accepted: {problem.rpartition(' ')[2]}", line, col, "", "remove the tag")
    opened = error.context_mark
    since = (
        f" ({error.context}, begun in line {opened.line + 1})"
        if error.context and opened and opened.line < line
        else ""
    )
    return Issue(file, f"not YAML: {problem}{since}", line, col)


def _check_aliases(root: yaml.Node) -> None:
    """Raise yaml.MarkedYAMLError where aliases make more of a document than anybody can read: bombs and circles."""
    sizes: dict[int, tuple[int, int]] = {}

    def unfolded(node: yaml.Node, level: int) -> tuple[int, int]:
        """How many values there are in all, and how many levels."""
        if level > _MAX_LEVELS:
            raise yaml.MarkedYAMLError(problem="aliases lead in a circle, or too deep", problem_mark=node.start_mark)
        if id(node) not in sizes:
            pairs = isinstance(node, yaml.MappingNode)
            inner = (
                []
                if isinstance(node, yaml.ScalarNode)
                else [part for pair in node.value for part in pair]
                if pairs
                else node.value
            )
            below = [unfolded(part, level + 1) for part in inner]
            sizes[id(node)] = (1 + sum(size for size, _ in below), 1 + max((depth for _, depth in below), default=0))
        size, depth = sizes[id(node)]
        if level + depth > _MAX_LEVELS or size > len(sizes) + _MAX_REPEATED:
            problem = f"aliases make {size:,} values of it" if size > _MAX_REPEATED else "aliases lead too deep"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
        return size, depth

    unfolded(root, 0)


def _repeated_keys(root: yaml.Node, file: str) -> Iterator[Issue]:
    stack: list[tuple[yaml.Node, tuple[str | int, ...]]] = [(root, ())]
    visited: set[int] = set()
    while stack:
        node, path = stack.pop()
        if id(node) in visited:
            continue
        visited.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            stack.extend((child, (*path, i)) for i, child in enumerate(node.value))
        elif isinstance(node, yaml.MappingNode):
            first: dict[tuple[str, str], yaml.Mark] = {}
            for key, value in node.value:
                if not isinstance(key, yaml.ScalarNode):
                    continue
                name = (key.tag, key.value)
                here = key.start_mark
                if name in first:
                    message = f"key '{key.value}' is given twice, first in line {first[name].line + 1}"
                    where = show_path((*path, key.value))
                    yield Issue(file, message, here.line + 1, here.column + 1, where, "remove one of the two")
                first.setdefault(name, here)
                stack.append((value, (*path, key.value)))


def _child(node: yaml.Node, part: str | int) -> tuple[yaml.Node, yaml.Node] | None:
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        return node.value[part], node.value[part]
    if isinstance(node, yaml.MappingNode):
        # the last one wins, as in the data: merged keys come first
        for key, value in reversed(node.value):
            if isinstance(key, yaml.ScalarNode) and key.value == str(part):
                return key, value
    return None
