from __future__ import annotations

import math
from typing import Any

import pytest

from rm_emulator.issues import InvalidInput
from rm_emulator.scenario.document import Document, parse_documents, parse_value


def only(text: str) -> Document:
    (document,) = parse_documents(text.encode(), "f.yaml")
    return document


def mistake(raw: bytes) -> str:
    with pytest.raises(InvalidInput) as caught:
        parse_documents(raw, "f.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e3", 1000),
        ("1.5e3", 1500),
        ("2.5", 2.5),
        ("1e-3", 0.001),
        ("12:30:00", "12:30:00"),
        ("no", "no"),
        ("on", "on"),
        ("true", True),
        ("017", 17),
        ("0x1F", 31),
        ("2024-01-31", "2024-01-31"),
        ("1_000", "1_000"),
        ("4Gi", "4Gi"),
        ("~", None),
        ("'1e3'", "1e3"),
    ],
)
def test_scalars_are_those_of_yaml_1_2(text: str, value: Any) -> None:
    found = only(f"a: {text}\n").data["a"]
    assert found == value
    assert type(found) is type(value)


def test_nan_is_a_number() -> None:
    assert math.isnan(only("a: .nan").data["a"])


def test_merge_keys_work_and_may_be_overridden() -> None:
    assert only("x: &a {p: 1, q: 2}\ny: {<<: *a, p: 3}").data["y"] == {"p": 3, "q": 2}


def test_every_repeated_key_is_named_with_both_places() -> None:
    assert mistake(b"a: 1\nb:\n  c: 1\n  c: 2\na: 3\n").splitlines() == [
        "f.yaml:4:3 b.c: key 'c' is given twice, first in line 3, remove one of the two",
        "f.yaml:5:1 a: key 'a' is given twice, first in line 1, remove one of the two",
    ]


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"a:\n\tb: 1\n", "f.yaml:2:1: not YAML: a tab where spaces are expected, indent with spaces"),
        (b"a: 1\nb: \xff\n", "f.yaml:2:4: not UTF-8: byte 0xff (save the file as UTF-8)"),
        (b"", "f.yaml:1:1: the file is empty"),
        (b"# only a comment\n", "f.yaml:1:1: the file is empty"),
        (b"a: \x01", "f.yaml:1:4: not allowed in YAML: character '\\x01'"),
        (b"a: !!python/object:os.system x", "remove the tag"),
        (b"a: @x", "f.yaml:1:4: not YAML: nothing can start with '@', put the text in quotes"),
        (b"a: b: c", "f.yaml:1:5: not YAML: a second ':' in one line"),
        (b"a: [1,\n", "f.yaml:1:7: not YAML"),
        (b"a: " + b"9" * 5000, "a number of too many digits"),
        (b"[" * 2_000, "not YAML"),
    ],
)
def test_what_is_not_yaml_is_said_with_its_place(raw: bytes, says: str) -> None:
    assert says in mistake(raw)


def test_a_byte_order_mark_is_passed_over() -> None:
    assert parse_documents(b"\xef\xbb\xbfa: 1", "f")[0].data == {"a": 1}


def test_locates_values_and_keys() -> None:
    document = only("a:\n- {b: 1}\n- b: 22\n")
    assert document.locate(("a", 1, "b")) == (3, 6)
    assert document.locate(("a", 1, "b"), key=True) == (3, 3)


def test_locates_the_deepest_part_that_is_there() -> None:
    assert only("a:\n  b: {c: 1}\n").locate(("a", "b", "missing", 3)) == (2, 6)


def test_several_documents_are_kept_apart() -> None:
    assert [d.data for d in parse_documents(b"a: 1\n---\nb: 2\n---\n", "f")] == [{"a": 1}, {"b": 2}]


@pytest.mark.parametrize(("text", "value"), [("1e3", 1000), ("[1, 2]", [1, 2]), ("random", "random"), ("null", None)])
def test_a_value_of_an_option(text: str, value: Any) -> None:
    assert parse_value(text) == value


def test_a_broken_value_of_an_option() -> None:
    with pytest.raises(ValueError, match="not YAML"):
        parse_value("[1")
