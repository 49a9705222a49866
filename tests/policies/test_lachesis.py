"""The trained order: says why, takes other weights of its kind, follows nodes and lines, and needs no torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rm_emulator.testing import job, node, scheduler, stage
from schedulers.core.errors import InvalidParameters
from schedulers.core.events import JobSubmitted, NodeAdded
from schedulers.core.log import SchedulerConfig
from schedulers.core.policy import ClusterView
from schedulers.core.scheduler import Scheduler
from schedulers.learned import model_store
from schedulers.learned.next_stage import NextStage
from schedulers.learned.routes import RouteChoices
from schedulers.learned.stage_orders import STAGE_RULES
from schedulers.learned.weights import LACHESIS, Weights, initial, pack
from schedulers.policies.decima import Decima
from schedulers.policies.lachesis import Lachesis

ORACLE = {"kind": "oracle"}
DEFT = {"kind": "deft"}
TWO = (stage(2, name="wide"), stage(1, name="narrow"), stage(1, parents=(0, 1), name="last"))


def asked(placement: Any = None, **settings: Any) -> Scheduler:
    """Two jobs with three stages each, on two nodes."""
    policy, nodes = {"kind": "lachesis", **settings}, (node("a"), node("b"))
    made = scheduler(policy, *nodes, predictor=ORACLE, placement=placement or {"kind": "first_fit"})
    for name in "ab":
        made.handle(JobSubmitted(0, job(name, *TWO)))
    return made


@pytest.mark.parametrize("placement", [None, DEFT])
def test_an_explanation_says_what_was_scored_against_what(placement: Any) -> None:
    made = asked(placement)
    assert made.state.containers
    said = [made.explain(name).about.get("said", "") for name in "ab"]
    assert any(" scored " in text and " against " in text for text in said)


class _Seen(NextStage):
    """Takes the last row, and keeps what it was shown."""

    def __init__(self) -> None:
        super().__init__(Lachesis.Params())
        self.seen: list[RouteChoices] = []

    def choose(self, choices: RouteChoices, view: ClusterView) -> int:
        """See NextStage."""
        self.seen.append(choices)
        return int(np.flatnonzero(choices.valid)[-1])


def shown(**placement: Any) -> list[RouteChoices]:
    policy = _Seen()
    config = SchedulerConfig(
        resources=("cpu", "memory"),
        policy={"kind": "rank_up"},
        predictor=ORACLE,
        offers="event",
        placement={**DEFT, **placement},
    )
    made = Scheduler(config, policy=policy)
    for each in (node("a"), node("b")):
        made.handle(NodeAdded(0, each))
    made.handle(JobSubmitted(0, job("a", *TWO)))
    return policy.seen


def test_what_is_assigned_is_not_left_and_what_is_below_comes_after_it() -> None:
    seen = shown()
    assert [choices.left.tolist() for choices in seen] == [
        [True, True, True],
        [True, False, True],
        [False, False, True],
    ]
    assert [np.flatnonzero(choices.valid).tolist() for choices in seen] == [[0, 1], [0], [2]]


def test_not_ahead_a_stage_may_be_chosen_once_its_parents_are_done() -> None:
    assert [np.flatnonzero(choices.valid).tolist() for choices in shown(ahead=False)] == [[0, 1], [0]]


def test_weights_of_another_network_are_refused() -> None:
    with pytest.raises(InvalidParameters, match="'decima' are a network of 'decima'; 'lachesis' needs one of its own"):
        Lachesis(Lachesis.Params(weights="decima"))
    with pytest.raises(InvalidParameters, match="weights 'lachesis' are a network of 'lachesis'; 'decima' needs"):
        Decima(Decima.Params(weights="lachesis"))


def test_what_is_beyond_its_training_it_says_once() -> None:
    drawn = initial(LACHESIS, np.random.default_rng(1))
    model_store.register("few", pack(Weights(LACHESIS, drawn.arrays, {"most jobs": "1"})), "few.safetensors")
    made, said = scheduler({"kind": "lachesis", "weights": "few"}, node("n", cores=1), predictor=ORACLE), []
    for name in "abc":
        made.handle(JobSubmitted(0, job(name, *TWO)))
        made.handle(NodeAdded(0, node(f"n{name}", cores=1)))
        said += [made.explain(each).about.get("said", "") for each in made.state.jobs]
    beyond = {text for text in said if "are more than the 1 that it was trained with" in text}
    assert len(beyond) == 1


def test_a_node_that_comes_changes_what_is_seen_and_a_restored_policy_sees_the_same() -> None:
    made = asked(DEFT)
    made.handle(NodeAdded(1, node("c", cores=8)))
    other = Scheduler.restore(made.snapshot())
    for each in (made, other):
        each.handle(JobSubmitted(2, job("c", *TWO)))
    assert made.snapshot() == other.snapshot()


@pytest.mark.parametrize("rule", STAGE_RULES)
def test_rules_choose_what_may_be_chosen(rule: str) -> None:
    from tests.learned.drawn_choices import drawn_choices

    choices = drawn_choices(5, np.random.default_rng(2))
    assert choices.valid[STAGE_RULES[rule](choices, asked().view, 3)]


def test_torch_is_not_in_a_process_that_decides() -> None:
    code = (
        "import sys; from schedulers.core.policy import policies; from schedulers.policies.lachesis import Lachesis; "
    )
    code += "Lachesis(Lachesis.Params()); assert not {'torch', 'gymnasium'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2], timeout=60)
