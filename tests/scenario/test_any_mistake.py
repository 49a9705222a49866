from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rm_emulator.issues import InvalidInput, Issue
from rm_emulator.scenario.check import check
from rm_emulator.scenario.document import parse_documents
from rm_emulator.scenario.load import EXAMPLES, load
from tests.examples import examples

GOOD = yaml.safe_load((EXAMPLES / "dag-heterogeneous.yaml").read_text())
GOOD["spec"] |= {
    "queues": [{"name": "default", "weight": 2}],
    "expect": ["fifo.jct_s.mean > 0"],
    "seeds": "1..2",
}
GOOD["spec"]["cluster"] |= {"executors": {"warmup": "1s"}, "disorder": {"delay": 0.1}}
OTHERS = [
    {"kind": "synthetic", "preset": "2sigma-like", "jobs": 5, "load": 1.0, "knobs": {"jitter": 0.1}},
    {"kind": "dags", "jobs": 3, "tasks": [5], "ccr": [1.0], "times": "by_speed", "demand": {"cpu": 1}},
    {"kind": "lachesis", "jobs": 3, "sizes": [2], "ccr": 1.0, "reading": "tasks", "demand": {"cpu": 1}},
    {"kind": "tpch", "jobs": 5, "load": 0.5, "queries": [1, 2], "sizes": [2], "demand": {"cpu": 1}},
    {"kind": "trace", "path": "my-trace.csv", "format": "csv", "options": {"time_unit": "s"}, "load": 0.8},
]
WRONG = st.sampled_from(
    [
        None,
        True,
        0,
        -1,
        3.5,
        math.nan,
        math.inf,
        10**30,
        "",
        "x",
        "1s",
        "-5m",
        "5 sec",
        "4Gi",
        [],
        {},
        [1, "a"],
        {"a": 1},
    ]
)


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from places(value, (*path, key))


def changed(node: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    copy = dict(node) if isinstance(node, dict) else list(node)
    copy[path[0]] = changed(node[path[0]], path[1:], value)
    return copy


@st.composite
def spoiled(draw: st.DrawFn) -> Any:
    workload = draw(st.sampled_from([GOOD["spec"]["workload"], *OTHERS]))
    good = changed(GOOD, ("spec", "workload"), workload)
    return changed(good, draw(st.sampled_from(sorted(places(good), key=str))), draw(WRONG))


@pytest.mark.slow
@given(spoiled())
@settings(max_examples=examples(400), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_wrong_value_is_either_fine_or_named_with_its_line(tmp_path: Path, data: Any) -> None:
    (tmp_path / "my-trace.csv").write_bytes((EXAMPLES / "my-trace.csv").read_bytes())
    path = tmp_path / "s.yaml"
    path.write_text(yaml.safe_dump(data, sort_keys=False))
    issues: list[Issue] | None = None
    try:
        check(load(path))
    except InvalidInput as error:
        issues = error.issues
    assert issues != []
    assert all(issue.message and (issue.line or "my-trace" in issue.file) for issue in issues or [])


TEXT = (EXAMPLES / "hello.yaml").read_text()


@pytest.mark.slow
@given(
    st.integers(0, len(TEXT)),
    st.integers(0, 30),
    st.text(max_size=5) | st.sampled_from(["\t", "- ", ": ", "'", "[", "&a ", "*a", "!x ", "<<: "]),
)
@settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.drawn(of=2)
def test_any_damaged_text_is_either_fine_or_named_with_its_line(tmp_path: Path, at: int, cut: int, put: str) -> None:
    path = tmp_path / "s.yaml"
    path.write_bytes((TEXT[:at] + put + TEXT[at + cut :]).encode("utf-8", "surrogatepass"))
    issues: list[Issue] | None = None
    try:
        check(load(path))
    except InvalidInput as error:
        issues = error.issues
    assert issues != []
    assert all(issue.message and issue.line for issue in issues or [])


@given(st.binary(max_size=200))
def test_any_bytes_are_a_document_or_a_named_mistake(raw: bytes) -> None:
    try:
        parse_documents(raw, "f")
    except InvalidInput as error:
        lines = error.lines
    else:
        lines = ["f:1:1"]
    assert all(line.startswith("f:") for line in lines)
