"""What faults cost, by hand."""

from __future__ import annotations

import polars as pl

from rm_emulator.engine.recording import FAULT_COLUMNS, RESTART_COLUMNS, Attempt, JobRow
from rm_emulator.results.faults import figures
from rm_emulator.results.record import Recorder
from schedulers.core.model import Node

NODES = (Node(id="a", capacity=(1000, 1000)), Node(id="b", capacity=(2000, 4000)))


def tables(attempts: list[tuple[int, int, str, int, int, int, int]]) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """attempts: (task, attempt, node, granted, started, ended, code), times in s, each of half of node a's cpu."""
    recorder = Recorder(NODES, more=FAULT_COLUMNS)
    recorder.demand("j", 0, (500, 100))
    for number, (task, attempt, node, granted, started, ended, code) in enumerate(attempts):
        times = 1000 * granted, 1000 * started, 1000 * ended
        recorder.task(Attempt("j", 0, task, attempt, node, number, *times, False, code))
    recorder.job(JobRow(id="j", submit_ms=0, tasks=2, work_ms=1, finish_ms=9))
    recorder.job(JobRow(id="k", submit_ms=0, tasks=2, work_ms=1, failed_ms=9))
    recorder.finish(0)
    frames = recorder._jobs.frame().collect(), recorder._tasks.frame().collect(), recorder.node_rows()
    recorder.close()
    return frames


def test_lost_work_goodput_and_waits_by_hand() -> None:
    found = figures(*tables([(0, 0, "a", 0, 1, 9, -100), (0, 1, "b", 12, 12, 20, 0), (1, 0, "a", 0, 1, 5, 0)]))
    assert found.failed_jobs == 1
    assert found.lost_node_s == 4.5  # half a node for 9 s
    # Half of node a for 4 of 5 s and a quarter of node b for 8 s, of 4.5 + 2 + 2.5 in all.
    assert found.goodput == round(4 / 9, 12)
    assert found.wait_again_s.mean == 3.0


def test_without_a_lost_attempt_nothing_waits_again() -> None:
    found = figures(*tables([(0, 0, "a", 0, 0, 5, 0)]))
    assert (found.lost_node_s, found.goodput, found.wait_again_s.mean) == (0.0, 1.0, None)


def test_work_that_checkpoints_kept_is_useful_and_not_lost() -> None:
    recorder = Recorder(NODES, more=("useful_ms",))
    recorder.demand("j", 0, (500, 100))
    # Half of node a: 9 s held of which 6 were kept, then 6 s of which 4 were the rest.
    recorder.task(Attempt("j", 0, 0, 0, "a", 1, 0, 0, 9000, False, -100, useful_ms=6000))
    recorder.task(Attempt("j", 0, 0, 1, "a", 2, 9000, 9000, 15000, False, 0, useful_ms=4000))
    recorder.job(JobRow(id="j", submit_ms=0, tasks=1, work_ms=1, first_start_ms=0, finish_ms=15000, ideal_ms=10000))
    recorder.finish(0)
    found = figures(recorder._jobs.frame().collect(), recorder._tasks.frame().collect(), recorder.node_rows())
    recorder.close()
    assert found.lost_node_s == 1.5
    assert found.goodput == found.ettr == round(10 / 15, 12)


def test_what_a_job_did_before_it_began_anew_is_lost() -> None:
    recorder = Recorder(NODES, more=RESTART_COLUMNS)
    recorder.demand("j", 0, (500, 100))
    # Half of node a: 8 s of a success that did not last, 2 s killed, and 8 s and 9 s after the second submission.
    for number, (task, begin, end, code) in enumerate([(0, 0, 8, 0), (1, 8, 10, -106), (0, 12, 20, 0), (1, 13, 22, 0)]):
        recorder.task(Attempt("j", 0, task, 0, "a", number, 1000 * begin, 1000 * begin, 1000 * end, False, code))
    recorder.job(JobRow(id="j", submit_ms=0, tasks=2, work_ms=1, finish_ms=22000, resubmitted_ms=12000))
    recorder.finish(0)
    found = figures(recorder._jobs.frame().collect(), recorder._tasks.frame().collect(), recorder.node_rows())
    recorder.close()
    assert (found.lost_node_s, found.goodput) == (5.0, round(17 / 27, 12))
    assert found.wait_again_s.mean == 3.0  # of the task that was killed


def test_a_figure_of_a_large_file_is_that_of_memory() -> None:
    jobs, tasks, nodes = tables([(0, 0, "a", 0, 1, 9, 1), (0, 1, "b", 12, 12, 20, 0)])
    assert figures(jobs, tasks.lazy(), nodes) == figures(jobs, tasks, nodes)
