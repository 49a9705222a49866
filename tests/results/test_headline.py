"""The headline: a label is called better only where the seeds show a difference, by the scenario's own figure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rm_emulator
from rm_emulator.issues import InvalidInput
from rm_emulator.results import contest, headline, statistics, table
from rm_emulator.results.expect import ExpectError
from rm_emulator.results.figures import DeadlineFigures, LabelComparison, Run, Spread, Summary
from rm_emulator.results.summary import read_summary


def summary_of(figures: dict[str, list[Run]], **more: Any) -> Summary:
    """A summary of labels with one run for each seed; the first label is the baseline, by its makespan if not said."""
    runs = [run for of_label in figures.values() for run in of_label]
    rest = {"headline": "makespan_s", "comparisons": [], **more}
    return Summary(scenario="s", version=None, workload=None, baseline=next(iter(figures)), runs=runs, **rest)


def makespans(label: str, *seconds: float, predictor: str | None = None) -> list[Run]:
    return [Run(label=label, seed=i, makespan_s=s, predictor=predictor) for i, s in enumerate(seconds, 1)]


def test_a_label_is_better_where_the_interval_of_the_difference_excludes_zero() -> None:
    made = summary_of(
        {"fifo": makespans("fifo", 100, 110, 120), "heft": makespans("heft", 80, 91, 99)}, headline="makespan_s"
    )
    against = contest.versus(made, "heft", "fifo")
    assert (round(against.value or 0, 6), against.sure) == (-20, 1)
    assert headline.of(made).startswith("heft is better than fifo in makespan: 90.0 s against 110 s (95 % CI")


def test_within_the_noise_the_headline_says_that_the_seeds_show_no_difference() -> None:
    made = summary_of(
        {"fifo": makespans("fifo", 100, 110, 120), "heft": makespans("heft", 80, 130, 99)}, headline="makespan_s"
    )
    assert headline.of(made).startswith("No difference that 3 seeds show between heft and fifo in makespan")


def test_one_seed_shows_no_difference() -> None:
    made = summary_of({"fifo": makespans("fifo", 100), "heft": makespans("heft", 50)})
    told = "No difference that one seed can show between heft and fifo in makespan: 50.0 s against 100 s"
    assert headline.of(made) == told


def test_a_label_worse_than_a_leading_baseline_is_told_as_worse() -> None:
    made = summary_of(
        {"fifo": makespans("fifo", 80, 81, 82), "heft": makespans("heft", 100, 101, 103)}, headline="makespan_s"
    )
    assert headline.of(made).startswith("heft is worse than fifo in makespan")


def test_a_higher_part_of_deadlines_met_is_better() -> None:
    def met(label: str, *parts: float) -> list[Run]:
        return [Run(label=label, seed=i, deadlines=DeadlineFigures(jobs=4, met=p)) for i, p in enumerate(parts, 1)]

    made = summary_of({"fifo": met("fifo", 0.5, 0.5, 0.5), "jockey": met("jockey", 1, 1, 1)}, headline="deadlines.met")
    assert contest.versus(made, "jockey", "fifo").sure == 1
    assert contest.best(made) == "jockey"


def test_labels_told_true_run_times_lead_only_where_the_baseline_alone_is_not() -> None:
    runs = {
        "fifo": makespans("fifo", 9, 9),
        "mine": makespans("mine", 8, 8),
        "truth": makespans("truth", 1, 1, predictor="oracle"),
    }
    made = summary_of(runs)
    assert contest.best(made) == "mine"
    runs.pop("mine")
    made = summary_of(runs)
    assert contest.best(made) == "truth"
    assert headline.of(made).startswith("truth (told true run times) is better than fifo in makespan")


def test_a_point_of_a_sweep_has_a_winner_only_beyond_the_noise() -> None:
    def jct(label: str, *means: float) -> list[Run]:
        return [Run(label=label, seed=i, jct_s=Spread(mean=m)) for i, m in enumerate(means, 1)]

    runs = {"a": jct("a", 10, 11, 12), "b": jct("b", 20, 22, 24), "c": jct("c", 30, 31, 33)}
    apart = summary_of(runs, headline=contest.USUAL)
    close = summary_of({"a": jct("a", 10, 30, 12), "b": jct("b", 20, 22, 24)}, headline=contest.USUAL)
    assert (contest.winner(apart), contest.winner(close), contest.lowest(close)) == ("a", None, "a")


def test_the_headline_s_figure_is_the_first_column_with_its_difference_to_the_baseline() -> None:
    made = summary_of({"fifo": makespans("fifo", 100, 110), "heft": makespans("heft", 80, 91)})
    made = Summary(
        **{**{f: getattr(made, f) for f in made.__struct_fields__}, "comparisons": [compared("heft", "fifo")]}
    )
    assert [column.heading for column in table.columns(made)][:4] == ["label", "makespan", "to fifo", "95 % interval"]


def compared(label: str, baseline: str) -> LabelComparison:
    """A comparison of which nothing is known."""
    nothing = statistics.Pairs(np.empty(0), np.empty(0), np.empty(0, np.int8))
    return statistics.compare(label, baseline, {1: nothing, 2: nothing})


def test_the_title_tells_the_range_of_tasks_where_seeds_differ() -> None:
    made = summary_of({"a": [Run(label="a", seed=1, jobs=2, tasks=5), Run(label="a", seed=2, jobs=2, tasks=7)]})
    assert table.compared(made)[0] == "s: 2 jobs, 5 to 7 tasks, 2 seeds"


def test_a_difference_of_fractions_is_in_points_with_its_sign() -> None:
    made = summary_of({"a": [Run(label="a", seed=1, jobs=2, tasks=5)]}, headline="deadlines.met")
    assert [table.by_difference(made, value) for value in (0.5, -0.25, 0.0)] == [
        "+50.0 points",
        "-25.0 points",
        "0 points",
    ]


@pytest.mark.parametrize(
    ("figure", "part"),
    [
        ("makespan", "unknown field 'makespan', did you mean 'makespan_s'?"),
        ("tasks", "neither high nor low is better"),
        ("jct_s", "is several figures"),
        ("jct_s.mean < 3", "expected"),
        ("", "expected"),
    ],
)
def test_a_headline_that_is_no_figure_is_refused(figure: str, part: str) -> None:
    with pytest.raises(ExpectError, match="(?s)" + part.replace("?", r"\?")):
        contest.check(figure)


def test_the_scenario_s_headline_stands_in_the_summary_and_comes_first_in_compare(tmp_path: Path) -> None:
    results = rm_emulator.run("hello", out=tmp_path / "out", set={"spec.headline": "makespan_s"})
    assert results.summary["headline"] == "makespan_s"
    card = rm_emulator.compare(results, labels=["fifo", "sjf"])
    assert card["scores"][0]["name"] == "makespan"


def test_check_tells_the_place_of_a_headline_that_no_run_has(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="headline"):
        rm_emulator.run("hello", out=tmp_path / "out", set={"spec.headline": "makespan"})


def test_of_one_label_over_numbers_of_nodes_the_headline_tells_the_change(tmp_path: Path) -> None:
    jobs = [{"name": n, "stages": [{"name": "s", "tasks": 4, "demand": {"cpu": 1}, "duration": 60}]} for n in "abc"]
    swept = {
        "apiVersion": "rm-emulator.io/v1alpha1",
        "kind": "Scenario",
        "metadata": {"name": "nodes"},
        "spec": {
            "cluster": {"nodes": [{"count": 1, "capacity": {"cpu": 4}}], "profile": "events"},
            "workload": {"kind": "jobs", "jobs": jobs},
            "policies": [{"kind": "fifo"}],
            "headline": "wait_s.mean",
            "sweep": {"cluster.nodes[0].count": [3, 1]},
        },
    }
    rm_emulator.run(swept, out=tmp_path / "out")
    told = headline.of(read_summary(tmp_path / "out"))
    assert told == "Mean wait with 1, 3 nodes: 60.0 \u2192 0 s; one seed"
