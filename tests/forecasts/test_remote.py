"""`simulate` on a Dask cluster: the same answers as on one machine, and one message for a play that fails."""

from __future__ import annotations

import pickle
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rm_emulator
from rm_emulator.experiments.call import CallPlace
from rm_emulator.experiments.engines import engine_of
from rm_emulator.forecasts import remote
from rm_emulator.forecasts.asked import Question, ask_present
from rm_emulator.forecasts.moment import paused
from rm_emulator.forecasts.plays import PlayFailed
from rm_emulator.forecasts.present import Present
from rm_emulator.forecasts.remote import Origin
from schedulers.core.decisions import Place
from schedulers.core.events import ContainerStarted, JobSubmitted, NodeAdded, PastJob, Tick
from schedulers.core.log import SchedulerConfig
from schedulers.core.model import Job, Node, Stage
from schedulers.core.scheduler import Scheduler
from tests.forecasts.test_simulate import SCENARIO, file

pytest.importorskip("distributed")
from benchmarks.dask_cluster import DaskCluster
from rm_emulator.experiments.dask_calls import ATTEMPTS

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_report")]

FAILS = textwrap.dedent(
    """
    from schedulers.core.policy import policies
    from schedulers.policies.fifo import Fifo

    @policies.register("fails_on_workers", source="a test")
    class Fails(Fifo):
        '''As fifo, to its first decision.'''

        def schedule(self, view, offer):
            raise ArithmeticError("no room for doubt")
    """
)

DIES = textwrap.dedent(
    """
    import os, signal
    from pathlib import Path
    from schedulers.core.policy import policies
    from schedulers.policies.fifo import Fifo

    @policies.register("dies_on_workers", source="a test")
    class Dies(Fifo):
        '''As fifo; for each file of the folder a process is killed.'''

        def schedule(self, view, offer):
            for file in Path("FOLDER").iterdir():
                file.unlink(missing_ok=True)
                os.kill(os.getpid(), signal.SIGKILL)
            return super().schedule(view, offer)
    """
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    with DaskCluster(tmp_path_factory.mktemp("cluster"), 2) as made:
        yield made


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("small") / "out"
    scenario = SCENARIO | {"spec": SCENARIO["spec"] | {"policies": SCENARIO["spec"]["policies"][:1]}}
    rm_emulator.run(scenario, out=out, jobs=1)
    return out


@pytest.fixture(scope="module")
def middle(run: Path) -> str:
    """A moment at which jobs wait."""
    return f"{int(rm_emulator.load(run).jobs['submit_ms'].quantile(0.8)) // 1000}s"


@pytest.mark.parametrize("asked", ["live jobs", "a new job", "another policy"])
@pytest.mark.drawn(of=8)
def test_answers_of_workers_are_those_of_one_machine(
    asked: str, run: Path, middle: str, cluster: DaskCluster, tmp_path: Path
) -> None:
    more: dict[str, Any] = {"draws": 7, "earlier": int(asked == "live jobs")}
    if asked == "live jobs":
        more["arrivals"] = "10m"
    elif asked == "a new job":
        more["file"] = file(tmp_path)
    else:
        more["policy"] = "fair"
    here = rm_emulator.simulate(run, middle, **more).answer
    assert here.jobs
    assert rm_emulator.simulate(run, middle, engine=cluster.engine, **more).answer == here


def test_answers_to_the_memory_of_a_brain_are_those_of_one_machine(cluster: DaskCluster) -> None:
    scheduler = Scheduler(SchedulerConfig(resources=("cpu",), policy={"kind": "fifo"}, offers="cycle"))
    scheduler.handle(NodeAdded(0, Node(id="n1", capacity=(2000,))))
    for number in range(3):
        stages = (Stage(name="only", tasks=2, demand=(1000,)),)
        scheduler.handle(JobSubmitted(number, Job(id=f"a/{number}", stages=stages), "all"))
    for place in scheduler.handle(Tick(10)):
        assert isinstance(place, Place)
        scheduler.handle(ContainerStarted(11, place.container))
    history = tuple(PastJob(name="", submitted=0, finished=n + 1, stages=((2, 5000.0 + n),)) for n in range(3))
    present, question = Present(scheduler.snapshot(), history, 100), Question(at_ms=0, draws=7)
    here = ask_present(present, question)
    assert [job.job for job in here.jobs] == ["a/0", "a/1", "a/2"]
    assert ask_present(present, question, engine=engine_of(cluster.engine, None)) == here


def test_a_worker_makes_a_run_once_for_all_calls_of_a_question(run: Path) -> None:
    origin, place = Origin(paused(run).recorded.cell), CallPlace(run, {}, lambda _: None)
    first, second = (remote._player("q", pickle.loads(pickle.dumps(origin)), at, place) for at in (1000, 2000))
    assert first is second
    assert remote._player("another", origin, 2000, place) is not first


def test_a_play_that_fails_on_a_worker_is_told_with_its_draws(
    run: Path, middle: str, cluster: DaskCluster, tmp_path: Path
) -> None:
    """Its policy's plug-in reaches the worker, too."""
    plugin = tmp_path / "fails_on_workers.py"
    plugin.write_text(FAILS)
    with pytest.raises(PlayFailed, match=r"draws 0 to 4 failed on .*ArithmeticError: no room for doubt"):
        rm_emulator.simulate(
            run, middle, draws=7, earlier=0, policy="fails_on_workers", plugins=[plugin], engine=cluster.engine
        )


def _dying(folder: Path, deaths: int) -> dict[str, Any]:
    """Options of a question whose policy has so many processes killed."""
    files = folder / "deaths"
    files.mkdir()
    for number in range(deaths):
        (files / str(number)).touch()
    plugin = folder / "dies_on_workers.py"
    plugin.write_text(DIES.replace("FOLDER", str(files)))
    return {"draws": 2, "earlier": 0, "policy": "dies_on_workers", "plugins": [plugin]}


@pytest.mark.drawn(of=8)
def test_a_play_that_is_killed_alone_begins_again(run: Path, middle: str, cluster: DaskCluster, tmp_path: Path) -> None:
    asked = _dying(tmp_path, 1)
    answer = rm_emulator.simulate(run, middle, engine=cluster.engine, **asked).answer
    assert not list((tmp_path / "deaths").iterdir())
    assert answer == rm_emulator.simulate(run, middle, **asked).answer


@pytest.mark.drawn(of=4)
def test_a_play_that_is_killed_again_and_again_ends_the_question(
    run: Path, middle: str, cluster: DaskCluster, tmp_path: Path
) -> None:
    with pytest.raises(PlayFailed, match=r"draws 0 to 1: .* ended with signal 9 .*attempts"):
        rm_emulator.simulate(run, middle, engine=cluster.engine, **_dying(tmp_path, 30))
    assert len(list((tmp_path / "deaths").iterdir())) >= 30 - 2 * ATTEMPTS
