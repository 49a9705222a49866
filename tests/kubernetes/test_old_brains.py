"""A new brain takes over from the objects and files of an older one, as each `tests/data/brain-N` has them."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from operators.extender.history import MIGRATIONS
from schedulers.core.events import HistoryPrimed
from schedulers.core.log import parse
from schedulers.core.replay import Replay
from tests.kubernetes import old_brain
from tests.kubernetes.old_brain import Found, containers, find, settled
from tests.kubernetes.world import World

DATA: Final = Path(__file__).parents[1] / "data"
OLD: Final = sorted(DATA.glob("brain-*"))


@pytest.fixture(params=OLD, ids=lambda folder: folder.name)
def found(request: pytest.FixtureRequest, tmp_path: Path) -> Found:
    """A copy, as a file of history is written to when it is opened."""
    return find(Path(shutil.copytree(request.param, tmp_path / "old")))


@pytest.fixture(params=[True, False], ids=["with its snapshot", "from objects and history alone"])
def world(found: Found, request: pytest.FixtureRequest) -> World:
    return settled(found, snapshot=request.param)


def live(world: World) -> dict[str, str]:
    """By uid of each pod that has been released and has not ended the node that it is on, or held to."""
    there = {
        pod.metadata.uid: pod.spec.nodeName or pod.narrowed_to
        for pod in world.lists.pods.values()
        if not (pod.is_terminal or pod.is_gated)
    }
    return {uid: node for uid, node in there.items() if node}


def held(world: World) -> dict[str, tuple[int, str]]:
    """By uid of its pod each container and its node."""
    state, pods = world.brain.scheduler.state.containers, world.brain.ledger.dump()
    return {uid: (number, state[number].node) for number, uid in pods.items() if number in state}


def test_every_released_pod_has_one_container_on_its_node(world: World) -> None:
    assert live(world)
    places = held(world)
    assert {uid: places[uid][1] for uid in live(world)} == live(world)


def test_nothing_is_over_committed_before_and_after_its_first_decisions(world: World) -> None:
    assert world.overcommitted() == {}
    world.brain.cycle()
    world.write()
    world.bind()
    assert world.overcommitted() == {}
    state = world.brain.scheduler.state
    assert all(min(node.free) >= 0 for node in state.nodes.values())


def test_containers_keep_the_numbers_of_the_snapshot(found: Found) -> None:
    world = settled(found)
    before = {uid: number for number, uid in containers(found.snapshot).items()}
    released = live(world)
    assert {uid: held(world)[uid][0] for uid in before if uid in released} == {
        uid: number for uid, number in before.items() if uid in released
    }
    assert set(before) & set(released)


def test_a_gang_that_had_begun_is_finished_where_it_was_planned(world: World) -> None:
    (planned,) = [job for job in world.lists.dagjobs.values() if old_brain.planned(job)]
    world.brain.cycle()
    world.write()
    nodes = {
        pod.metadata.labels[old_brain.names.INDEX_LABEL]: pod.spec.nodeName or pod.narrowed_to
        for pod in world.pods_of(planned, "ring")
    }
    assert nodes == old_brain.planned(planned)["ring"]


def test_its_jobs_go_on_and_end_and_none_of_their_tasks_succeeds_twice(world: World) -> None:
    world.settle()
    assert [job.key for job in world.lists.dagjobs.values() if not job.has_succeeded] == []
    assert world.brain.scheduler.state.jobs == {}
    labels = (old_brain.names.DAGJOB_LABEL, old_brain.names.STAGE_LABEL, old_brain.names.INDEX_LABEL)
    ended = Counter(
        tuple(pod.metadata.labels.get(label) for label in labels)
        for pod in world.lists.pods.values()
        if pod.exit_code == 0 and pod.dagjob_uid
    )
    assert max(ended.values()) == 1


def test_without_a_snapshot_the_jobs_of_the_file_are_history(found: Found) -> None:
    world = settled(found, snapshot=False)
    world.log.flush()
    told = [fact.jobs for fact in parse(bytes(world.logs[-1]).splitlines()) if isinstance(fact, HistoryPrimed)]
    assert told == [tuple(found.history)]
    assert found.history


def test_the_log_of_the_new_brain_replays(world: World) -> None:
    world.settle()
    world.log.flush()
    assert sum(1 for _ in Replay(bytes(world.logs[-1]).splitlines(keepends=True))) > 10


def test_the_log_of_the_old_brain_replays(found: Found) -> None:
    assert sum(1 for _ in Replay(found.log)) > 50


def test_what_a_brain_leaves_today_is_what_the_newest_of_them_left(tmp_path: Path) -> None:
    old_brain.leave(tmp_path / "new")
    new, old = find(tmp_path / "new"), find(Path(shutil.copytree(OLD[-1], tmp_path / "old")))
    words = "what a brain leaves has changed: if that is meant, make one more folder with tests.kubernetes.old_brain"
    assert new.log == old.log, words
    assert (new.left.dagjobs, new.left.pods) == (old.left.dagjobs, old.left.pods), words
    assert new.history == old.history, words


def test_a_file_of_history_has_its_folder_for_each_version() -> None:
    assert len(MIGRATIONS) == 1, "a new version of the file: make one more folder with tests.kubernetes.old_brain"
