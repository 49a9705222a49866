"""Sparrow's tables on small clusters: their shape, and what must come out on any cluster."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from studies import sparrow
from studies.sparrow_runs import Case, Ran, measure, measure_tpch

SMALL = Case(method="random", load=0.9, span=20, workers=60, slots=2, tasks=15)


@pytest.fixture(scope="module")
def found() -> dict[str, Ran]:
    return {method: measure(msgspec.structs.replace(SMALL, method=method), 1) for method in sparrow.METHODS}


def test_random_is_far_behind_then_per_task_then_batch_and_late_binding_is_nearly_ideal(found: dict[str, Ran]) -> None:
    means = {method: ran.mean_ms for method, ran in found.items()}
    assert means["random"] > 1.3 * means["per_task"]
    assert means["per_task"] > means["batch"] > means["late_binding"] >= means["ideal"]
    assert means["late_binding"] < 1.1 * means["ideal"]


def test_probes_cost_five_messages_a_task_and_random_workers_one(found: dict[str, Ran]) -> None:
    assert [found[method].messages for method in ("random", "per_task", "batch", "ideal")] == [1, 5, 5, 0]


def test_jobs_of_the_first_fifth_do_not_count(found: dict[str, Ran]) -> None:
    # 60 x 2 slots at load 0.9 for 25 mean task times, in jobs of 15 tasks: 180 jobs, 144 of them after the warm-up.
    assert all(124 <= ran.jobs <= 164 for ran in found.values())
    assert all(len(ran.quarters_ms) == 4 for ran in found.values())


def test_without_cancellation_late_binding_takes_six_messages_a_task() -> None:
    assert measure(msgspec.structs.replace(SMALL, method="late_binding", cancellation=False), 1).messages == 6


def test_a_scheduler_that_thinks_longer_than_jobs_are_apart_falls_behind() -> None:
    quick = msgspec.structs.replace(SMALL, method=sparrow.IDEAL)
    slow = measure(msgspec.structs.replace(quick, think_ms=5), 1)
    assert slow.mean_ms > 2 * measure(quick, 1).mean_ms
    assert list(slow.quarters_ms) == sorted(slow.quarters_ms)


def test_users_in_turn_keep_a_modest_user_from_waiting_behind_a_greedy_one() -> None:
    modest = msgspec.structs.replace(SMALL, method="late_binding", load=0.5)
    turns, fifo = (measure(msgspec.structs.replace(modest, mix=mix), 1) for mix in ("users", "fifo users"))
    assert turns.jobs == fifo.jobs
    assert turns.mean_ms < 0.5 * fifo.mean_ms


def test_of_a_mix_with_long_tasks_only_short_jobs_count() -> None:
    alone, beside = (measure(msgspec.structs.replace(SMALL, method="ideal", mix=mix), 1) for mix in ("", "long"))
    assert 0.4 * alone.jobs < beside.jobs < 0.6 * alone.jobs


def test_tasks_with_hosts_run_on_these_alone() -> None:
    ran = measure(msgspec.structs.replace(SMALL, method="per_task", mix="hosts", load=0.5), 1)
    assert ran.messages == 5


@pytest.mark.drawn(of=4)
def test_of_queries_the_first_fifth_does_not_count_and_random_workers_are_slowest() -> None:
    queries = {
        method: measure_tpch(msgspec.structs.replace(case, workers=10), 15, 1) for method, case in sparrow.TPCH.items()
    }
    assert {ran.jobs for ran in queries.values()} == {12}
    assert max(queries, key=lambda method: queries[method].mean_ms) == "random"


@pytest.mark.slow
@pytest.mark.drawn(of=4)
def test_the_page_is_made_of_kept_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"workers": 40, "slots": 2, "span": 8.0, "tasks": 4}
    for name in ("responses", "side", "large"):
        cases = getattr(sparrow, name)()
        shrunk = {key: msgspec.structs.replace(case, **small) for key, case in cases.items()}
        monkeypatch.setattr(sparrow, name, lambda *_, shrunk=shrunk: shrunk)
    waits = {key: msgspec.structs.replace(case, **small) for key, case in sparrow.ZERO_WAIT.items()}
    monkeypatch.setattr(sparrow, "ZERO_WAIT", waits)
    queries = {key: msgspec.structs.replace(case, workers=10) for key, case in sparrow.TPCH.items()}
    monkeypatch.setattr(sparrow, "TPCH", queries)
    monkeypatch.setattr(sparrow, "QUERIES", 8)
    template = Path(__file__).parents[2] / "docs" / f"{sparrow.NAME}.in.md"
    (tmp_path / template.name).write_text(template.read_text(encoding="utf-8"), encoding="utf-8")
    for _ in range(2):  # the second time from what is kept
        sparrow.main(out=tmp_path / "out", docs=tmp_path, seeds=2, long_seeds=2, jobs=1)
    page = (tmp_path / f"{sparrow.NAME}.md").read_text(encoding="utf-8")
    assert page.count("\n| late_binding | ") == 7
    assert "nan" not in page
