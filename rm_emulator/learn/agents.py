"""Agents to train: the question of each agent, rules that answer the same question, and the way to ask its network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from schedulers.core.policy import ClusterView, Policy
from schedulers.core.registry import NoParams
from schedulers.learned.dispatch import Dispatch
from schedulers.learned.graph import Action, Graph
from schedulers.learned.limits import candidates
from schedulers.learned.network import Network, log_probabilities
from schedulers.learned.next_stage import NextStage
from schedulers.learned.order_network import OrderNetwork
from schedulers.learned.orders import RULES
from schedulers.learned.routes import RouteChoices
from schedulers.learned.stage_orders import STAGE_RULES
from schedulers.learned.weights import ARCHITECTURES, LACHESIS, NetworkSizes, Weights

#: Observation and choice of an agent: a Graph and an Action for Decima, Choices and a row for LACHESIS.
Seen = TypeVar("Seen")
Chosen = TypeVar("Chosen")
Draws: TypeAlias = "np.random.Generator | None"
Ask: TypeAlias = Callable[[Seen, ClusterView], Chosen]
#: The choice and its log-probability, from the observation, the view and the number of earlier questions.
Decide: TypeAlias = Callable[[Seen, ClusterView, int], tuple[Chosen, float]]


class Decision(NamedTuple, Generic[Seen, Chosen]):
    """One decision of an episode."""

    at: int
    """Time, ms."""
    graph: Seen
    """The observation."""
    action: Chosen
    log_prob: float


class AskedDispatch(Dispatch):
    """A policy of Decima's kind with choices from outside."""

    def __init__(self, ask: Ask[Graph, Action]) -> None:
        super().__init__(NoParams())
        self._ask = ask

    def choose(self, graph: Graph, view: ClusterView) -> Action:
        """See Dispatch.choose."""
        return self._ask(graph, view)


class AskedNextStage(NextStage):
    """A policy of LACHESIS's kind with choices from outside."""

    def __init__(self, ask: Ask[RouteChoices, int]) -> None:
        super().__init__(NoParams())
        self._ask = ask

    def choose(self, choices: RouteChoices, view: ClusterView) -> int:
        """See NextStage.choose."""
        return int(self._ask(choices, view))


class Agent(NamedTuple, Generic[Seen, Chosen]):
    """An agent to train."""

    kind: str
    """As in Sizes."""
    sizes: Mapping[str, NetworkSizes]
    """Sizes of networks, by name."""
    policy: Callable[[Ask[Seen, Chosen]], Policy]
    """The policy that asks the given function."""
    rules: Mapping[str, Callable[[Seen, ClusterView, int], Chosen]]
    references: tuple[str, str]
    """Rules for comparison; the score of weights is the ratio to the first rule."""
    decides: Callable[[Weights, Draws], Decide[Seen, Chosen]]
    """A decision function from weights; with draws None the likeliest choice each time."""
    is_forced: Callable[[Seen], bool]
    """Whether there is only one choice; nothing is learned from such decisions."""


def _is_forced(graph: Graph) -> bool:
    """Whether the agent has a single stage and a single limit to choose from."""
    open_jobs = [job for job in graph.jobs if job.valid.any()]
    if len(open_jobs) != 1 or np.count_nonzero(open_jobs[0].valid) != 1:
        return False
    return len(candidates(open_jobs[0].least, graph.executors)) == 1


def decided(network: Network, graph: Graph, draws: Draws) -> tuple[Action, float]:
    """An action drawn by the network's probabilities, or the likeliest, and its log-probability."""
    scores = network.scores(graph)
    stage, of_stage = _pick(scores.stages, draws)
    job = int(scores.jobs[stage])
    limits, values = network.limits(graph, job)
    limit, of_limit = _pick(values, draws)
    row = int(scores.rows[stage])
    classes, values = network.classes(graph, job, row)
    if not classes:
        return Action(job, row, limits[limit]), of_stage + of_limit
    chosen, of_class = _pick(values, draws)
    return Action(job, row, limits[limit], classes[chosen]), of_stage + of_limit + of_class


def next_decided(network: OrderNetwork, choices: RouteChoices, draws: Draws) -> tuple[int, float]:
    """A next stage drawn by the network's probabilities, or the likeliest, and its log-probability."""
    index, chance = _pick(network.scores(choices), draws)
    return int(np.flatnonzero(choices.valid)[index]), chance


def _pick(scores: NDArray[np.float64], draws: Draws) -> tuple[int, float]:
    logs = log_probabilities(scores)
    if draws is None:
        index = int(logs.argmax())
    else:
        sums = np.exp(logs).cumsum()
        index = min(int(sums.searchsorted(draws.random() * sums[-1], side="right")), len(logs) - 1)
    return index, float(logs[index])


def _dispatching(weights: Weights, draws: Draws) -> Decide[Graph, Action]:
    network = Network(weights)
    return lambda graph, *_: decided(network, graph, draws)


def _ordering(weights: Weights, draws: Draws) -> Decide[RouteChoices, int]:
    network = OrderNetwork(weights)
    return lambda choices, *_: next_decided(network, choices, draws)


DECIMA: Final[Agent[Graph, Action]] = Agent(
    "decima", ARCHITECTURES, AskedDispatch, RULES, ("capped_sjf", "random"), _dispatching, _is_forced
)
_LACHESIS: Final[Agent[RouteChoices, int]] = Agent(
    "lachesis",
    {"lachesis": LACHESIS},
    AskedNextStage,
    STAGE_RULES,
    ("rank_up", "random"),
    _ordering,
    lambda choices: int(np.count_nonzero(choices.valid)) == 1,
)
#: By kind. Observations and choices differ between agents, so code for all agents has no type for them.
AGENTS: Final[Mapping[str, Agent[Any, Any]]] = {agent.kind: agent for agent in (DECIMA, _LACHESIS)}


def agent_of(network: str) -> Agent[Any, Any]:
    """The agent of a network, by the network's name in a configuration."""
    return next(agent for agent in AGENTS.values() if network in agent.sizes)
