"""Episodes played by a policy in training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rm_emulator.learn.config import read
from rm_emulator.learn.rollouts import RolloutPool, RolloutTask, RolloutWorker, WorkerDied, playable
from schedulers.learned.weights import ARCHITECTURES, initial, pack

WEIGHTS = pack(initial(ARCHITECTURES["released"], np.random.default_rng(1)))


@pytest.fixture
def worker(config: Path) -> RolloutWorker:
    return RolloutWorker(playable(read(config).workloads))


def test_an_episode_is_a_function_of_its_task(worker: RolloutWorker) -> None:
    task = RolloutTask(0, 3, 4, WEIGHTS, keep_fraction=0.5)
    first, second = worker.play(task), worker.play(task)
    assert np.array_equal(first.outcome.ends, second.outcome.ends)
    assert [d[2:] for d in first.decisions] == [d[2:] for d in second.decisions]


def test_rollouts_of_a_sequence_differ_by_their_draws(worker: RolloutWorker) -> None:
    ends = {tuple(worker.play(RolloutTask(0, 3, draw, WEIGHTS)).outcome.ends) for draw in range(3)}
    assert len(ends) == 3


def test_greedy_episodes_do_not_draw(worker: RolloutWorker) -> None:
    ends = {tuple(worker.play(RolloutTask(0, 3, draw, WEIGHTS, greedy=True)).outcome.ends) for draw in range(3)}
    assert len(ends) == 1


def test_a_part_of_the_decisions_is_kept_and_changes_nothing(worker: RolloutWorker) -> None:
    every, some = (worker.play(RolloutTask(0, 3, 4, WEIGHTS, keep_fraction=keep)) for keep in (1.0, 0.4))
    assert np.array_equal(every.outcome.ends, some.outcome.ends)
    assert 0 < len(some.decisions) < len(every.decisions) <= every.decision_count


def test_an_episode_that_is_cut_ends_unfinished_jobs_there(worker: RolloutWorker) -> None:
    cut, whole = (worker.play(RolloutTask(0, 3, 4, "capped_sjf", limit_ms=limit)).outcome for limit in (30_000, None))
    assert cut.end == cut.ends.max() == 30_000 < whole.end
    assert np.array_equal(np.sort(np.minimum(whole.ends, 30_000)), np.sort(cut.ends))


@pytest.mark.slow
@pytest.mark.drawn(of=4)
def test_processes_play_what_one_plays(config: Path) -> None:
    tasks = [RolloutTask(0, seed, seed, WEIGHTS, keep_fraction=1.0) for seed in range(3)]
    ends = []
    for jobs in (1, 2):
        pool = RolloutPool(playable(read(config).workloads), jobs)
        ends.append([episode.outcome.ends.tolist() for episode in pool.play(tasks)])
        pool.close()
    assert ends[0] == ends[1]


def test_a_process_that_is_gone_is_said_in_one_line(config: Path) -> None:
    pool = RolloutPool(playable(read(config).workloads), 2)
    # As many tasks as make both processes: Python may hang where a pool breaks while it starts one more.
    pool.play([RolloutTask(0, seed, 1, "fair") for seed in range(4)])
    assert pool._pool is not None
    for process in list(pool._pool._processes.values()):
        process.kill()
    with pytest.raises(WorkerDied, match="go on with --resume") as caught:
        pool.play([RolloutTask(0, seed, 1, "fair") for seed in range(4)])
    assert "\n" not in str(caught.value)
    with pytest.raises(WorkerDied, match="go on with --resume"):
        pool.begin([RolloutTask(0, 1, 1, "fair")])
    pool.close()
