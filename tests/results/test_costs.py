"""What sharing costs, from completion times made by hand; how it is shown."""

from __future__ import annotations

import re

import msgspec
import polars as pl
import pytest
from rich.console import Console

from rm_emulator.results import report, summary, table
from rm_emulator.results.costs import costs
from rm_emulator.results.figures import Costs

NOTHING = Costs()


def jobs(*rows: tuple[str, str, int, int | None]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["id", "queue", "submit_ms", "finish_ms"], orient="row")


RUN = jobs(("1", "a", 0, 100), ("2", "a", 50, 350), ("3", "b", 0, 500))


def test_a_cost_is_a_ratio_of_means():
    alone = jobs(("1", "a", 0, 100), ("2", "a", 50, 150), ("3", "b", 0, 250))
    found = costs(RUN, {"alone": alone})
    assert found["a"] == Costs(sharing=(100 + 300) / (100 + 100))
    assert found["b"] == Costs(sharing=2.0)


def test_every_baseline_has_its_cost():
    found = costs(RUN, {"one_node": RUN, "ideal": jobs(("3", "b", 0, 1000))})
    assert found["b"] == Costs(fragmentation=1.0, unfairness=0.5)


def test_jobs_that_did_not_finish_in_both_are_left_out():
    run = jobs(("1", "a", 0, 100), ("2", "a", 0, None), ("3", "a", 0, 900))
    alone = jobs(("1", "a", 0, 50), ("2", "a", 0, 10), ("3", "a", 0, None))
    assert costs(run, {"alone": alone})["a"].sharing == 2.0


def test_without_any_such_job_there_is_no_cost():
    assert costs(RUN, {"alone": jobs(("3", "b", 0, None))}) == {"a": NOTHING, "b": NOTHING}
    assert costs(RUN, {"alone": jobs(("3", "b", 7, 7))})["b"] == NOTHING


def with_runs(built, costs_of):
    """The summary with other costs in each run."""
    replace = msgspec.structs.replace
    return replace(built, runs=[replace(cell, costs=costs_of(cell)) for cell in built.runs])


@pytest.fixture(scope="module")
def with_costs(run):
    """The summary of the fabricated run with costs of one label known."""
    ratios = {"adhoc": 1.5, "prod.etl": 0.75}

    def costs_of(cell):
        return {q: Costs(sharing=r + cell.seed) if cell.label == "slearn" else NOTHING for q, r in ratios.items()}

    return with_runs(run[2], costs_of)


def test_rows_are_means_over_seeds(with_costs):
    assert [(queue, label, found.sharing) for queue, label, found in table.cost_rows(with_costs)] == [
        ("adhoc", "slearn", 3.0),
        ("prod.etl", "slearn", 2.25),
    ]


def printed(built, width):
    console = Console(width=width, force_terminal=False)
    with console.capture() as capture:
        table.show(built, console)
    return capture.get()


def test_the_terminal_shows_what_is_known(with_costs, run):
    text = printed(with_costs, 80)
    assert re.search(r"adhoc +slearn +3\.00x", text)
    assert "fragmentation" not in text
    assert "what sharing costs" not in printed(run[2], 80)


@pytest.mark.parametrize("width", [40, 60, 100])
def test_long_names_do_not_widen_the_table(with_costs, width):
    each = Costs(sharing=1.0, fragmentation=2.0, unfairness=3.0)
    built = with_runs(with_costs, lambda _: {f"{'very-' * 12}{i}": each for i in "ab"})
    costs_only = printed(built, width).partition("what sharing costs")[2]
    assert max(len(line) for line in costs_only.splitlines()) <= width


def test_many_rows_are_left_to_the_report(with_costs):
    built = with_runs(with_costs, lambda _: {f"q{i:02d}": Costs(sharing=1.0) for i in range(20)})
    assert "and 16 more in report.html" in printed(built, 80)


@pytest.mark.drawn(of=4)
def test_the_report_has_a_table_of_them(run, with_costs, tmp_path):
    import shutil

    shutil.copytree(run[0], tmp_path / "run")
    assert 'id="costs"' not in report.render(tmp_path / "run")
    (tmp_path / "run" / "summary.json").write_bytes(msgspec.json.encode(with_costs))
    text = report.render(tmp_path / "run")
    rows = re.search(r'<table id="costs">.*?</table>', text, re.DOTALL)[0]
    assert re.findall(r"<td[^>]*>(.*?)</td>", rows) == ["slearn", "3.00x", "-", "-", "slearn", "2.25x", "-", "-"]


def test_a_baseline_that_is_not_there_is_named(run, fabricate, tmp_path):
    scenario = fabricate.run_directory(tmp_path, labels={"fifo": None}, seeds=(1,), jobs=5)
    scenario["spec"]["baselines"] = ["alone"]
    with pytest.raises(summary.MissingCell, match=r"baselines/alone/fifo/1/jobs\.parquet: not there"):
        summary.build(tmp_path, scenario)
