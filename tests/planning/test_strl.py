"""STRL as data and as text, and what is said of what makes no sense."""

from __future__ import annotations

from typing import Any

import pytest

from schedulers.planning.tetrisched.strl import (
    DEEPEST,
    Barrier,
    Choose,
    InvalidExpression,
    Linear,
    Max,
    Scale,
    UpTo,
    parse,
    read,
    value,
    write,
)

TEXT = """max(
  scale(2, nCk(gpu, k=2, start=0, dur=20, v=8)),
  barrier(4, LnCk("any node", k=4, v=6.5)), upto(3, sum(LnCk(b, k=1, v=1))))"""
KINDS = "one of nCk, LnCk, max, min, sum, upto, scale, barrier"


@pytest.mark.parametrize("indent", [None, "  "])
def test_what_is_written_is_read_as_the_same(indent: str | None) -> None:
    made = parse(TEXT)
    assert parse(write(made, indent=indent)) == made


def test_text_and_data_are_the_same_expression() -> None:
    data = {
        "max": [
            {"nCk": {"set": "gpu", "k": 2, "v": 8}},
            {"scale": {"by": 2, "of": {"LnCk": {"set": "b", "k": 1, "v": 1}}}},
        ]
    }
    assert read(data) == parse("max(nCk(gpu, k=2, v=8), scale(2, LnCk(b, k=1, v=1)))")
    assert read({"upto": {"k": 2, "of": [{"nCk": {"set": "b", "k": 1, "v": 1}}]}}) == parse("upto(2, nCk(b, k=1, v=1))")


def test_comments_and_lines_are_free() -> None:
    assert parse("# wishes\n nCk( a , v = 1,\n k=2 ) # end") == Choose("a", 2, 1)


@pytest.mark.parametrize(
    ("wants", "held", "worth"),
    [
        (Choose("a", 2, 8), [2], 8),
        (Linear("a", 4, 8), [1], 2),
        (Max((Choose("a", 1, 3), Choose("b", 1, 5))), [1, 0], 3),
        (Barrier(1, Linear("a", 3, 1)), [3], 1),
        (Barrier(4, Linear("a", 4, 8)), [1], 0),
        (Scale(2, UpTo(2, (Linear("a", 2, 4), Linear("a", 2, 2)))), [1, 1], 6),
    ],
)
def test_values_are_as_defined(wants: Any, held: list[int], worth: float) -> None:
    assert value(wants, held) == worth


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", f"line 1, column 1: expected {KINDS}, found the end"),
        ("max(\n  nck(a, k=1, v=1))", f"line 2, column 3: expected {KINDS}, found 'nck'"),
        ("nCk(a, v=1 k=1)", "line 1, column 12: expected ',' and 'k=', found 'k'"),
        ("nCk(a, k=1, v=1 dur=1)", "line 1, column 17: expected ',' or ')', found 'dur'"),
        ("nCk(a, k=1)", "line 1, column 11: expected ',' and 'v=', found ')'"),
        ("nCk(a, k=1, k=2)", "line 1, column 13: expected 'v=' or 'start=' or 'dur=', found 'k'"),
        ("nCk(a, k=x, v=1)", "line 1, column 10: expected a number, found 'x'"),
        ("nCk(3, k=1, v=1)", "line 1, column 5: expected the name of a set of machines, found '3'"),
        ("nCk(a, k=1, v=-2)", "line 1, column 1: nCk: v is -2 (expected a number from 0 on)"),
        ("nCk(a, k=0, v=1)", "line 1, column 1: nCk: k is 0 (expected a whole number from 1 on)"),
        ("nCk(a, k=1, dur=0, v=1)", "line 1, column 1: nCk: dur is 0 (expected a whole number from 1 on)"),
        ("max()", f"line 1, column 5: expected {KINDS}, found ')'"),
        ("scale(2, nCk(a, k=1, v=1), nCk(a, k=1, v=1))", "line 1, column 26: expected ')', found ','"),
        ("scale(nCk(a, k=1, v=1))", "line 1, column 7: expected a number, found 'nCk'"),
        ("nCk(a, k=1, v=1) nCk(a, k=1, v=1)", "line 1, column 18: expected the end, found 'nCk'"),
        ('nCk("a, k=1, v=1)', "line 1, column 5: expected the name of a set of machines, found '\"'"),
        ("max(" * 60, f"line 1, column {4 * DEEPEST + 1}: more than {DEEPEST} operators inside each other"),
    ],
)  # fmt: skip
def test_text_that_does_not_parse_is_told_where_and_what_was_expected(text: str, said: str) -> None:
    with pytest.raises(InvalidExpression) as caught:
        parse(text)
    assert str(caught.value) == said


LEAF = {"set": "a", "k": 1, "v": 1}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (3, f"expression: 3 (expected {KINDS})"),
        ({"max": []}, "max: [] (expected a list of at least one expression)"),
        ({"max": [{"nCk": LEAF}, {"nck": LEAF}]}, f"max[1]: ['nck'] (expected {KINDS})"),
        ({"nCk": {**LEAF, "w": 1}}, "nCk: unknown key 'w' (expected set, k, v, start, dur)"),
        ({"nCk": {"set": "a", "k": 1}}, "nCk: no 'v' (expected set, k, v, start, dur)"),
        ({"scale": {"by": -1, "of": {"nCk": LEAF}}}, "scale: by is -1 (expected a number from 0 on)"),
        ({"barrier": {"at": float("nan"), "of": {"nCk": LEAF}}}, "barrier: at is nan (expected a number from 0 on)"),
        ({"nCk": {**LEAF, "v": True}}, "nCk: v is True (expected a number from 0 on)"),
        ({"nCk": {**LEAF, "start": 0.5}}, "nCk: start is 0.5 (expected a whole number from 0 on)"),
    ],
)  # fmt: skip
def test_data_that_makes_no_sense_is_told_where(data: Any, said: str) -> None:
    with pytest.raises(InvalidExpression) as caught:
        read(data)
    assert str(caught.value) == said


def test_a_barrier_that_contains_itself_is_told_so() -> None:
    data: dict[str, Any] = {"barrier": {"at": 1}}
    data["barrier"]["of"] = data
    with pytest.raises(InvalidExpression, match=r"^barrier\.of: contains itself$"):
        read(data)
