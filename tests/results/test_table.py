"""The terminal's table."""

from __future__ import annotations

import msgspec
import pytest
from rich.console import Console

from rm_emulator.results import table
from rm_emulator.results.figures import Summary


def printed(summary, width):
    console = Console(width=width, record=True, force_terminal=False)
    with console.capture() as capture:
        table.show(summary, console)
    return capture.get()


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_no_line_is_wider_than_the_terminal(run, width):
    assert max(len(line) for line in printed(run[2], width).splitlines()) <= width


def test_the_wide_table_has_every_figure(run):
    text = printed(run[2], 160)
    assert all(word in text for word in ("makespan", "error p50", "right queue", "95 % interval", "baseline"))


def test_a_narrow_terminal_keeps_the_result(run):
    text = printed(run[2], 60)
    assert "speedup" in text
    assert "makespan" not in text


def test_expectations_are_printed_with_their_figures(run):
    text = printed(run[2], 100)
    assert "FAILS  slearn.wait_s.p90 < 1" in text
    assert "against 1.000" in text


def test_what_a_new_queue_would_get_is_one_line(run):
    lines = [line for line in printed(run[2], 160).splitlines() if "new queue" in line]
    assert len(lines) == 1
    assert lines[0].startswith("a new queue of weight 1 would get at the time of highest load: ")
    assert lines[0].rstrip().endswith(" % of the cluster")


def test_labels_that_differ_are_named(run):
    other = msgspec.to_builtins(run[2])
    for entry in other["runs"]:
        entry["new_queue"]["share"] = 0.25 if entry["label"] == "slearn" else 0.5
    assert "25.0 % (slearn), 50.0 % (three_sigma) of the cluster" in table.new_queue(msgspec.convert(other, Summary))


def test_a_single_queue_is_not_compared_with_a_new_one(run):
    other = msgspec.to_builtins(run[2])
    for entry in other["runs"]:
        entry["queues"] = {"default": entry["queues"]["adhoc"]}
    assert table.new_queue(msgspec.convert(other, Summary)) == ""


def test_a_column_without_any_figure_is_left_out(run):
    bare = msgspec.to_builtins(run[2])
    for entry in bare["runs"]:
        entry["queue_placement_correct"] = None
    assert "right queue" not in printed(msgspec.convert(bare, Summary), 160)


def test_jobs_in_time_are_a_column_where_any_has_a_deadline(run):
    due = msgspec.to_builtins(run[2])
    for entry in due["runs"]:
        entry["deadlines"] = {"jobs": 4, "met": 0.75}
    assert "in time" not in printed(run[2], 160)
    (column,) = [each for each in table.figures(msgspec.convert(due, Summary)) if each.heading == "in time"]
    assert (set(column.values), column.unit, column.good) == ({75.0}, " %", 1)


def test_a_figure_that_lacks_in_one_seed_is_not_averaged(run):
    bare = msgspec.to_builtins(run[2])
    bare["runs"][0]["jain"] = None
    assert msgspec.convert(bare, Summary).mean("slearn", "jain") is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.0123, "0.0123"),
        (0.00001, "<0.001"),
        (1.5, "1.50"),
        (99.95, "100"),
        (12.34, "12.3"),
        (1234567.8, "1,234,568"),
        (-2.5, "-2.50"),
    ],
)
def test_numbers_have_three_digits(value, text):
    assert table.number(value) == text


def test_how_near_tasks_were_to_their_input_is_one_line(run):
    assert table.locality(run[2]) == ""
    other = msgspec.to_builtins(run[2])
    for entry in other["runs"]:
        entry["locality"] = {"node": 0.5 if entry["label"] == "slearn" else 0.25, "rack": 0.25, "off": 0.25}
    assert (
        table.locality(msgspec.convert(other, Summary))
        == "tasks that ran on a node with their input: 50.0 % (slearn), 25.0 % (three_sigma)"
    )
