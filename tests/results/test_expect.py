"""Expectations: read, refused with a place, evaluated over seeds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rm_emulator.results.expect import ExpectError, check, evaluate, parse
from rm_emulator.results.figures import ExpectationOutcome

SUMMARY = {
    "runs": [
        {"label": "slearn", "seed": 1, "policy": "gs", "jct_s": {"mean": 10, "p90": 3}, "jain": None,
         "queues": {"prod.etl": {"wait_s": {"p90": 5}}}},
        {"label": "slearn", "seed": 2, "policy": "gs", "jct_s": {"mean": 30, "p90": 3}, "jain": 0.5,
         "queues": {"prod.etl": {"wait_s": {"p90": 7}}}},
        {"label": "my-fifo", "seed": 1, "policy": "fifo", "jct_s": {"mean": 40, "p90": 3}, "jain": 1.0, "queues": {}},
    ],
    "comparisons": [{"label": "slearn", "baseline": "my-fifo", "jobs_faster": 0.75,
                     "speedup": {"ratio_of_means": {"value": 1.5, "ci95": [1.2, 1.8]}}}],
}  # fmt: skip


def outcome(text):
    return evaluate(parse(text), SUMMARY)


@pytest.mark.parametrize(
    "text",
    [
        "slearn.jct_s.mean == 20",
        "slearn.jct_s.mean < my-fifo.jct_s.mean",
        'slearn.queues["prod.etl"].wait_s.p90 <= 6',
        "slearn['queues']['prod.etl'].wait_s.p90 >= 6",
        "comparisons.slearn.ratio_of_means > 1",
        "comparisons.slearn.ratio_of_means.value == 1.5",
        "comparisons.slearn.ratio_of_means.ci95[0] > 1.1",
        "comparisons.slearn.jobs_faster > .5",
        'runs["my-fifo"].jct_s.mean == 4e1',
        "my-fifo.jct_s.mean - slearn.jct_s.mean * 2 == 0",
        "my-fifo.jct_s.mean / (1 + 1) == 20",
        "-slearn.jct_s.p90 < -2",
        "10 - 2 - 3 == 5",
        "2 + 3 * 4 == 14",
        "16 / 4 / 2 == 2",
    ],
)
def test_holds(text):
    assert outcome(text).holds is True


def test_the_value_is_the_mean_over_seeds():
    text = "slearn.jct_s.mean > 99"
    assert outcome(text) == ExpectationOutcome(text=text, holds=False, left=20.0, right=99.0)


def test_a_figure_that_does_not_apply_does_not_hold():
    found = outcome("slearn.jain < 1")
    assert (found.holds, found.left) == (False, None)


def test_division_by_zero_does_not_hold_and_is_named_with_its_place():
    found = outcome("1 / (slearn.jct_s.mean - 20) > 0")
    assert (found.holds, found.left, found.why) == (False, None, "division by zero at column 3")


def test_a_division_by_a_zero_that_is_written_down_is_refused_without_a_run():
    with pytest.raises(ExpectError, match="division by zero") as caught:
        check(parse("slearn.jct_s.mean < 3 / (2 - 2)"), ["slearn"])
    assert caught.value.column == 23


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("slern.jct_s.mean < 1", 1, "did you mean 'slearn'"),
        ("slearn.jct.mean < 1", 8, "did you mean 'jct_s'"),
        ("1 < slearn.jct_s.maen", 18, "did you mean 'mean'"),
        ("slearn.jct_s < 1", 8, "name one of mean, p90"),
        ("slearn.policy < 1", 8, "not a number"),
        ("slearn < 1", 1, "slearn.jct_s.mean"),
        ("comparisons < 1", 1, "name a label"),
        ("comparisons.my-fifo.ratio_of_means < 1", 13, "label compared with the baseline 'my-fifo' (known: slearn)"),
        ("slearn.jct_s.mean-slearn.jct_s.p90 < 1", 14, "a minus needs space"),
        ("slearn.jct_s.mean.value < 1", 19, "single figure"),
        ("comparisons.slearn.ratio_of_means.ci95[2] < 1", 40, "0 to 1"),
    ],
)
def test_unknown_names_are_refused_with_their_place(text, column, message):
    with pytest.raises(ExpectError) as caught:
        outcome(text)
    assert caught.value.column == column
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "column", "wanted"),
    [
        ("", 1, "a figure"),
        ("slearn.jct_s.mean", 18, "one of < <= > >= =="),
        ("slearn.jct_s.mean = 3", 19, "cannot read '='"),
        ("slearn.jct_s.mean < ", 21, "a number"),
        ("(1 + 2 < 3", 8, "')'"),
        ("1 < 2 < 3", 7, "the end"),
        ("slearn. < 3", 9, "a name"),
        ("slearn[ < 3", 9, "a name in quotes"),
        ("slearn['a' < 3", 12, "']'"),
        ("__import__('os') < 3", 11, "one of <"),
        ("1 < 2; 3", 6, "cannot read ';'"),
    ],
)
def test_mistakes_are_refused_with_their_place(text, column, wanted):
    with pytest.raises(ExpectError) as caught:
        parse(text)
    assert caught.value.column == column
    assert wanted in str(caught.value)


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text):
    found = None
    try:
        parse(text)
    except ExpectError as error:
        found = error.column
    assert found is None or 1 <= found <= len(text) + 1


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.floats(1, 1e6))
def test_arithmetic_is_that_of_python(a, b, c):
    found = evaluate(parse(f"{a!r} + {b!r} * {c!r} - {a!r} / {c!r} <= 0"), SUMMARY)
    assert found.left == a + b * c - a / c


@pytest.mark.parametrize(
    "text",
    [
        "slearn.jct_s.mean < fifo.jct_s.mean",
        'slearn.queues["any"].wait_s.p90 < 60',
        'slearn.fairness.queues["any"].starved_s < 60',
        "slearn.fairness.jain_60s.mean > 0.9",
        "slearn.new_queue.share > 0.1",
        'slearn.costs["any"].sharing < 2',
        "slearn.utilisation.gpu > 0.5",
        "comparisons.slearn.bins.wide_large.speedup.p50_of_ratios > 1",
        "slearn.decision_us.p99 < 1000",
        "slearn.queue_placement.over < 0.1",
        "slearn.locality.rack < 0.1",
        "slearn.deadlines.met > 0.9",
    ],
)
def test_fields_are_checked_before_there_is_a_run(text):
    check(parse(text), ["slearn", "fifo"], "fifo")


def test_an_unknown_field_is_found_before_there_is_a_run():
    with pytest.raises(ExpectError, match="did you mean 'makespan_s'"):
        check(parse("slearn.makespan < 1"), ["slearn", "fifo"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("slearn.policy < 1", "'policy' is not a number"),
        ("slearn.decision_us.p9 < 1", "did you mean 'p99'"),
        ('slearn.fairness.queues["any"].starved < 60', "did you mean 'starved_s'"),
        ("slearn.jct_s < 1", "name one of mean, p50, p90, p99"),
    ],
)
def test_what_is_no_figure_is_found_before_there_is_a_run(text, message):
    with pytest.raises(ExpectError, match=message):
        check(parse(text), ["slearn", "fifo"])
