"""The table of planners on unlike machines: what is planned, what is measured, and what the page says of it."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from schedulers.planning.unrelated.heft import heft
from studies import heuristics
from studies.heuristics import ALL, COPYING, Planned, batches, literature, plan, rows, with_saga

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def planned() -> list[Planned]:
    return [plan(sample) for sample in literature(2, 2)]


def test_every_dag_is_planned_by_everybody(planned: list[Planned]) -> None:
    assert len(planned) == 4
    assert all(set(each.makespans) == set(each.ms) == set(ALL) for each in planned)


def test_heft_is_as_long_as_itself(planned: list[Planned]) -> None:
    assert rows(planned)[0][:2] == ["heft", "1.000 [1.000, 1.000]"]


def test_no_plan_is_shorter_than_the_longest_way(planned: list[Planned]) -> None:
    assert all(makespan >= each.path * 0.999 for each in planned for makespan in each.makespans.values())


def test_what_copies_save_is_said_of_those_that_copy(planned: list[Planned]) -> None:
    assert {row[0] for row in rows(planned) if row[8] != "-"} == set(COPYING)


def test_related_machines_have_sizes_and_speeds() -> None:
    sample = next(literature(1, 1, related=True))
    assert sample.times[3][2] == sample.sizes[3] / sample.speeds[2]


def test_a_batch_is_one_dag_of_all_its_jobs() -> None:
    one, many = next(batches(1, 1)), next(batches(1, 6))
    assert len(many.sizes) > len(one.sizes)
    assert many.edges[: len(one.edges)] == one.edges
    assert plan(one).makespans["heft"] == heft(heuristics.Instance(one.times, one.edges, one.rate)).makespan


def test_a_plan_that_is_none_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    backwards = heuristics.TimelinePlan(())
    monkeypatch.setattr(heuristics, "ALL", {"heft": lambda _: backwards})
    monkeypatch.setattr(heuristics, "COPYING", {})
    with pytest.raises(ValueError, match="a plan by heft is none: task 0 never comes to its end"):
        plan(next(literature(1, 1)))


def test_intervals_are_over_the_means_of_seeds() -> None:
    each = Planned(1, 1, 1.0, 1.0, {}, {}, {}, {})
    two = [each, each, msgspec.structs.replace(each, seed=2), msgspec.structs.replace(each, seed=2)]
    # Means 2 and 4: 3 with 12.706 / sqrt(2) * sqrt(2) around it.
    assert heuristics.over_seeds(two, [1.0, 3.0, 3.0, 5.0], digits=1) == "3.0 [-9.7, 15.7]"


def test_answers_of_another_python_stand_beside_ours(
    planned: list[Planned], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "answers.py"
    script.write_text("import sys\nfor line in sys.stdin: print('{\"HEFT\": [7.0, 0.5]}')\n")
    monkeypatch.setattr(heuristics.beside_saga, "__file__", str(script))
    samples = list(literature(2, 2, related=True))
    beside = with_saga(sys.executable, samples, planned)
    assert [each.makespans["SAGA HEFT"] for each in beside] == [7.0] * 4
    assert beside[0].ms["SAGA HEFT"] == 500 / beside[0].tasks
    assert [row[0] for row in rows(beside)[-2:]] == ["SAGA HEFT", "heft by SAGA's means"]


def test_the_page_has_every_table(planned: list[Planned]) -> None:
    measured = heuristics.Measured(unrelated=planned, related=planned, batches={5: planned})
    page = heuristics.page(measured, (DOCS / "results-heuristics.in.md").read_text(encoding="utf-8"))
    assert page.count("| tdca |") == 3
    assert "SAGA" not in page


def test_what_is_kept_is_not_planned_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = heuristics.measure(tmp_path, seeds=2, count=1, jobs=(1,))
    monkeypatch.setattr(heuristics, "plan", None)
    assert heuristics.measure(tmp_path, seeds=2, count=1, jobs=(1,)) == first


def test_with_other_planners_all_is_planned_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heuristics.measure(tmp_path, seeds=1, count=1, jobs=())
    monkeypatch.setattr(heuristics, "ALL", {"heft": heft})
    monkeypatch.setattr(heuristics, "COPYING", {})
    assert list(heuristics.measure(tmp_path, seeds=1, count=1, jobs=()).related[0].makespans) == ["heft"]
