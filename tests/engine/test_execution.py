"""True run times: drawn by name, never in launch order."""

from __future__ import annotations

import numpy as np
import pytest

from rm_emulator.engine.config import EngineConfig, Executors
from rm_emulator.engine.execution import Execution, NoProfiles, draw
from rm_emulator.engine.features.startup import startup_ms
from rm_emulator.engine.features.unlike import Distances
from rm_emulator.testing import job, node, stage
from rm_emulator.workload.model import Drawn, Fixed, PerTask, Remote, RunTimes, Waves, WorkloadJob
from rm_emulator.workload.waves import StageWaves
from schedulers.core.model import Stage

CONFIG = EngineConfig(nodes=(node(),))


def times(runtimes: RunTimes, tasks: int = 4, *, seed: int = 1, name: str = "a", execution: Execution | None = None):
    source = WorkloadJob(job=job(name, stage(tasks)), submit_ms=0, runtimes=(runtimes,))
    return (execution or Execution(CONFIG, seed)).stage_times(source)[0]


def drawn(made, tasks: int = 4, attempt: int = 0) -> list[int]:
    return [made.ms(index, 1, "fresh", attempt) for index in range(tasks)]


def test_fixed_run_times() -> None:
    assert drawn(times(Fixed(70))) == [70] * 4


def test_listed_run_times() -> None:
    assert drawn(times(PerTask((1, 2, 3, 4)))) == [1, 2, 3, 4]


def test_listed_run_times_are_the_same_in_every_attempt() -> None:
    assert drawn(times(PerTask((1, 2, 3, 4))), attempt=2) == [1, 2, 3, 4]


def test_drawn_run_times_depend_on_names_and_seed_alone() -> None:
    assert drawn(times(Drawn(5000, 0.5))) == drawn(times(Drawn(5000, 0.5)))
    assert drawn(times(Drawn(5000, 0.5))) != drawn(times(Drawn(5000, 0.5), seed=2))
    assert drawn(times(Drawn(5000, 0.5))) != drawn(times(Drawn(5000, 0.5), name="b"))


def test_a_task_that_runs_again_is_drawn_anew_whenever_that_is() -> None:
    made = times(Drawn(5000, 0.5))
    again = made.ms(2, 1, "fresh", 1)
    assert again != made.ms(2, 1, "fresh", 0)
    assert times(Drawn(5000, 0.5)).ms(2, 1, "fresh", 1) == again


def test_the_mean_is_that_of_the_first_attempts() -> None:
    assert times(PerTask((1, 2, 3, 6))).mean_ms == 3.0


@pytest.mark.parametrize("kind", ["lognormal", "gamma", "uniform", "normal"])
def test_mean_and_variation_are_as_asked(kind: str) -> None:
    values = np.array(draw(Drawn(10_000, 0.3, kind), np.random.default_rng(1), 40_000))
    assert values.mean() == pytest.approx(10_000, rel=0.01)
    assert values.std() / values.mean() == pytest.approx(0.3, rel=0.02)


def test_an_exponential_varies_as_much_as_its_mean() -> None:
    values = np.array(draw(Drawn(10_000, 0.0, "exponential"), np.random.default_rng(1), 40_000))
    assert values.std() / values.mean() == pytest.approx(1.0, rel=0.02)


def test_without_variation_every_task_takes_the_mean() -> None:
    assert draw(Drawn(1234.4), np.random.default_rng(1), 3) == [1234] * 3


@pytest.mark.parametrize("kind", ["lognormal", "gamma", "exponential", "uniform", "normal"])
def test_no_run_time_is_below_a_millisecond(kind: str) -> None:
    assert min(draw(Drawn(1.0, 2.0, kind), np.random.default_rng(1), 2000)) >= 1


def test_startup_times_are_drawn_by_name() -> None:
    first = startup_ms(Drawn(500, 0.5), 1, "a", 0, 3, 0)
    assert startup_ms(Drawn(500, 0.5), 1, "a", 0, 3, 0) == first
    assert startup_ms(Drawn(500, 0.5), 1, "a", 0, 3, 1) != first
    assert startup_ms(Fixed(40), 1, "a", 0, 3, 0) == 40


def test_measured_waves_need_executors() -> None:
    with pytest.raises(NoProfiles, match="job 'a' has run times measured on executors"):
        times(Waves("tpch-2g-q1", 0))


def test_measured_waves_are_looked_up_with_the_executors_settings() -> None:
    asked: list[tuple[Waves, Executors]] = []

    def waves_of(waves: Waves, executors: Executors) -> StageWaves:
        asked.append((waves, executors))
        return StageWaves({5: [300]}, {5: [200]}, {5: [100]})

    config = EngineConfig(nodes=(node(),), profile="events", executors=Executors(warmup_ms=7))
    made = times(Waves("q", 2), execution=Execution(config, 1, waves_of))
    assert asked == [(Waves("q", 2), Executors(warmup_ms=7))]
    assert [made.ms(0, 5, wave) for wave in ("fresh", "first", "rest")] == [300, 200, 100]


# -- distance from the input ------------------------------------------------------------------------

READS = Stage(name="s", tasks=4, demand=(1, 1), hosts=(("n1",), ("n1", "n3"), (), ("elsewhere",)))
PLACES = [node("n1", rack="a"), node("n2", rack="a"), node("n3"), node("n4")]


@pytest.mark.parametrize(("task", "found"), [(0, [0, 1, 2, 2]), (1, [0, 1, 0, 2]), (2, [None] * 4), (3, [2] * 4)])
def test_the_distance_of_a_task_from_its_input(task: int, found: list[int | None]) -> None:
    distances = Distances(PLACES, Remote())
    assert [distances.of(READS, task, number) for number in range(4)] == found  # nodes without rack share none


def test_distance_stretches_run_times() -> None:
    distances = Distances(PLACES, Remote(rack=1.2, off=1.5))
    assert [distances.stretched(1001, distance) for distance in (None, 0, 1, 2)] == [1001, 1001, 1201, 1502]
