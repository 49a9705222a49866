"""Graphene's experiments: scenarios are valid, small ones run, and tables say what was measured."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import pytest
import yaml

from rm_emulator.scenario.load import load
from rm_emulator.workload import storage
from studies import graphene, offline, online, production

SMALL = 2
PLANS = offline.Measured(
    {part: [offline.Planned(i, 1, 10, {"graphene": 10, "cp": 12}) for i in "ab"] for part in offline.SHARES},
    [offline.Planned(i, 1, 10, {}, {name: [10] * len(offline.ERRORS) for name in offline.MISLED}) for i in "ab"],
    7,
    [offline.Planned(i, 1, 10, {"graphene": 10, "cp": 12}) for i in "ab"],
    [offline.Planned(i, 1, 10, dict.fromkeys(offline.ALL, 10)) for i in "ab"],
)
EXPERIMENTS = {**online.EXPERIMENTS, **production.MAIN, **production.LARGE, **production.SWEPT}


pytestmark = pytest.mark.usefixtures("no_report")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    rows = [
        f"M1,3,j{i},,Terminated,{i},{i + 10},100.0,0.3\nR2_1,2,j{i},,Terminated,{i},{i + 25},100.0,0.3\n"
        for i in range(8)
    ]
    trace = tmp_path / "batch_task.csv"
    trace.write_text("".join(rows))
    online.prepare(tmp_path, trace)
    return tmp_path


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_scenario_is_valid(name: str, tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(yaml.safe_dump(online.scenario(name, EXPERIMENTS[name], [1, 2])))
    assert [policy.label for policy in load(path).scenario.spec.policies] == list(EXPERIMENTS[name].policies)


def test_jobs_are_drawn_into_two_queues_and_stay_otherwise_the_same(out: Path) -> None:
    one, two = storage.load(out / "alibaba-jobs"), storage.load(out / "alibaba-queues")
    assert {entry.job.queue for entry in two.jobs} == set(online.QUEUES)
    assert [entry.job.stages for entry in one.jobs] == [entry.job.stages for entry in two.jobs]


@pytest.mark.slow
@pytest.mark.nightly
def test_small_experiments_run_and_fill_their_tables(out: Path) -> None:
    found = online.measure(EXPERIMENTS, [1, 2], out, 1, SMALL)
    compared = online.rows(found["alibaba"])
    assert [row[0] for row in compared] == list(online.COMPARED)
    assert compared[0][2:5] == ["1", "1", "1"]
    assert all(len(row) == len(online.HEAD) for row in compared)
    queues = online.queue_rows(found["queues"], found["alibaba"])
    assert [row[0] for row in queues] == list(online.FAIR)
    assert all(len(row) == len(online.HEAD_QUEUES) for row in queues)
    errors = online.error_rows(found["errors"], {error: found[f"demands_{error}"] for error in online.ERRORS})
    assert errors[0][:5] == ["none", "-", "1", "1", "1"]
    assert [row[1] for row in errors[1:]] == ["run times", "run times and demands"] * len(online.ERRORS)
    assert [row[:2] for row in online.overbook_rows(found)] == [
        [used, part] for used in ("all", "half") for part in ("0.25", "0.5", "1")
    ]
    swept = list(production.sweep_rows(found))
    assert [row[:2] for row in swept[:4]] == [["at once", k] for k in ("0", "0.2", "1", "5")]
    assert {len(row) for row in swept} == {len(production.HEAD_SWEEP)}
    assert swept[0][-2:] == ["-", "-"]
    rendered_tables = graphene.online_tables(found)
    template = (Path(__file__).parents[2] / "docs" / f"{graphene.NAME}.in.md").read_text(encoding="utf-8")
    assert all(f"{{{{online.{name}}}}}" in template for name in rendered_tables)
    text = graphene.page(template, PLANS, found, 2, rendered_tables)
    assert all(rendered in text for rendered in rendered_tables.values())


@pytest.mark.slow
def test_a_ratio_across_experiments_is_of_the_same_jobs(out: Path) -> None:
    names = ("alibaba", "alibaba_as_yarn")
    one, other = online.measure({name: EXPERIMENTS[name] for name in names}, [1, 2], out, 1, SMALL).values()
    above, below = other.by_label["cp"], one.by_label["graphene"]
    ratios = [above[seed]["jct_s"]["mean"] / below[seed]["jct_s"]["mean"] for seed in (1, 2)]
    assert online.jct(other, "cp", one, "graphene").startswith(f"{fmean(ratios):.2f} ")


def test_the_page_holds_the_tables() -> None:
    template = (
        "{{ offline.dags }} {{ offline.shares[0.25][1] }} {{ offline.errors[0] }} {{ seeds }} {{ planned('cp') }}"
    )
    text = graphene.page(template, PLANS, {}, 3, {})
    assert text.startswith("7 | planner |")
    assert text.endswith(" 2 3 1.000 [1.000, 1.000]")
    assert "| cp | 1.200 [1.200, 1.200] |" in text


@pytest.mark.slow
def test_figures_in_the_page_s_prose_are_those_of_the_runs(out: Path) -> None:
    found = online.measure({"alibaba": EXPERIMENTS["alibaba"]}, [1, 2], out, 1, SMALL)
    template = "{{ jct('alibaba', 'cp', 'tetris') }} / {{ makespan('alibaba', 'cp', 'cp') }}"
    told = online.jct(found["alibaba"], "cp", found["alibaba"], "tetris")
    assert graphene.page(template, PLANS, found, 2, {}) == f"{told} / 1.00 [1.00, 1.00]"


@pytest.mark.slow
def test_kept_runs_are_read_again(out: Path) -> None:
    first, again = (online.measure({"alibaba": EXPERIMENTS["alibaba"]}, [1, 2], out, 1, SMALL) for _ in range(2))
    assert again["alibaba"].summary == first["alibaba"].summary


def test_the_page_in_the_docs_is_made_from_its_template() -> None:
    docs = Path(__file__).parents[2] / "docs"
    template, page = ((docs / f"{graphene.NAME}{end}").read_text(encoding="utf-8") for end in (".in.md", ".md"))
    headings = [line for line in template.splitlines() if line.startswith("#")]
    assert headings == [line for line in page.splitlines() if line.startswith("#")]
