"""Decisions with their advantages, as minibatches for a step of training."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from rm_emulator.learn.agents import Chosen, Decision, Seen
from rm_emulator.learn.critic import WIDTH, features, less_group_mean, residuals
from rm_emulator.learn.network import DecimaNetwork, Evaluation, TorchNetwork
from rm_emulator.learn.order_network import Lachesis
from rm_emulator.learn.returns import advantages
from rm_emulator.learn.rollouts import Rollout
from schedulers.core.errors import UserError
from schedulers.learned.weights import Architecture, Weights

#: Decisions in a row go together: they share most jobs, and a shared job is computed once.
RUN: Final = 32


class Diverged(UserError, RuntimeError):
    """A loss or a gradient is not finite."""


class Minibatch(NamedTuple):
    """A minibatch."""

    inputs: Any
    """Batch or OrderBatch."""
    old_log_prob: Tensor
    """[decisions], log-probability at the time of the decision."""
    advantage: Tensor
    """[decisions], advantage."""
    critic_target: Tensor
    """[decisions], target of a critic; NaN: unknown."""


class SequenceRollouts(NamedTuple):
    """The rollouts of one sequence, and the kind of costs."""

    episodes: Sequence[Rollout]
    horizon_s: float | None
    makespan: bool


#: Per episode [decisions, n], inputs for the estimate of the costs explained by the state.
CriticInputs: TypeAlias = Callable[[Rollout], np.ndarray]


def normalised_advantages(
    groups: Sequence[SequenceRollouts], rate: float, *, critic: CriticInputs | None
) -> np.ndarray:
    """Advantages of all kept decisions: savings against the sequence's mean, in its deviations.

    rate: live jobs per time, of differential costs. critic: inputs of the estimate to subtract.
    """
    found, states = [], []
    for group in groups:
        times = [np.array([decision.at for decision in episode.decisions], float) for episode in group.episodes]
        outcomes = [each.outcome.makespan() if group.makespan else each.outcome for each in group.episodes]
        found.append(np.concatenate(advantages(times, outcomes, horizon_s=group.horizon_s, rate=rate)))
        if critic is not None:
            seen = [critic(episode) for episode in group.episodes]
            states.append(np.concatenate(less_group_mean(times, seen, [outcome.end for outcome in outcomes])))
    if critic is not None:
        for kind in {group[1:] for group in groups}:
            same = [index for index, group in enumerate(groups) if group[1:] == kind]
            left = residuals(np.concatenate([found[i] for i in same]), np.concatenate([states[i] for i in same]))
            cuts = np.cumsum([len(found[i]) for i in same])[:-1]
            for index, part in zip(same, np.split(left, cuts), strict=True):
                found[index] = part
    return np.concatenate([each / (each.std() + 1e-6) for each in found if len(each)] or [np.zeros(0)])


def features_of(episode: Rollout) -> np.ndarray:
    """[decisions, features]."""
    return np.array([features(decision.graph) for decision in episode.decisions]).reshape(-1, WIDTH)


def critic_inputs_of(network: TorchNetwork) -> CriticInputs:
    """Features of the state for a linear estimate, or the expectation of the network's own critic, s."""
    if isinstance(network, DecimaNetwork):
        return features_of

    def expects(episode: Rollout) -> np.ndarray:
        if not episode.decisions:
            return np.zeros((0, 1))
        with torch.no_grad():
            value = network(network.batch(episode.decisions)).value.numpy()
        longest = np.array([decision.graph.longest_ms for decision in episode.decisions])
        seconds: np.ndarray = np.exp(value.clip(-9, 9)) * longest / 1000
        return seconds[:, None]

    return expects


def critic_targets_of(network: TorchNetwork, episodes: Sequence[Rollout]) -> np.ndarray:
    """[decisions]: targets of a critic: ln(time to go over the longest way left); NaN without a critic."""
    if isinstance(network, DecimaNetwork):
        return np.full(sum(len(episode.decisions) for episode in episodes), np.nan)
    return np.array(
        [
            np.log((episode.outcome.end - decision.at + 1) / decision.graph.longest_ms)
            for episode in episodes
            for decision in episode.decisions
        ]
    )


def torch_network(weights: Weights) -> TorchNetwork:
    """The network in torch."""
    return DecimaNetwork(weights) if isinstance(weights.architecture, Architecture) else Lachesis(weights)


def minibatches(
    network: TorchNetwork,
    decisions: Sequence[Decision[Seen, Chosen]],
    advantages: np.ndarray,
    count: int,
    generator: np.random.Generator,
    critic_targets: np.ndarray | None = None,
) -> list[Minibatch]:
    """All decisions in `count` minibatches of about the same size, made of runs in a random order."""
    known = np.full(len(decisions), np.nan) if critic_targets is None else critic_targets
    starts = np.arange(0, len(decisions), RUN)
    parts = np.array_split(generator.permutation(starts), min(count, len(starts)))
    made = []
    for part in parts:
        indexes = [i for start in part for i in range(start, min(start + RUN, len(decisions)))]
        chosen = [decisions[index] for index in indexes]
        old = torch.tensor([each.log_prob for each in chosen], dtype=torch.float32)
        numbers = (torch.from_numpy(each[indexes].astype(np.float32)) for each in (advantages, known))
        made.append(Minibatch(network.batch(chosen), old, *numbers))
    return made


#: Weight of the critic's error in the loss.
_CRITIC: Final = 0.5


def critic_loss(evaluation: Evaluation, minibatch: Minibatch) -> Tensor:
    """The critic's mean squared error, weighed; 0 without a critic."""
    if evaluation.value is None or not torch.isfinite(minibatch.critic_target).all():
        return torch.zeros(())
    return _CRITIC * ((evaluation.value - minibatch.critic_target) ** 2).mean()


def entropy(evaluation: Evaluation) -> Tensor:
    """[decisions]: entropy of stage and limit together."""
    return evaluation.stage_entropy + evaluation.limit_entropy


def descend(network: TorchNetwork, optimiser: torch.optim.Adam, loss: Tensor, max_norm: float | None) -> None:
    """One step down the gradient. Raises Diverged before any change."""
    if not torch.isfinite(loss):
        raise Diverged(f"the loss is {loss.item()}: no step is taken; lower the learning rate and go on with --resume")
    optimiser.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(network.parameters(), torch.inf if max_norm is None else max_norm)
    if not torch.isfinite(norm):
        raise Diverged(
            f"the gradient is {norm.item()}: no step is taken; lower the learning rate and go on with --resume"
        )
    optimiser.step()


def mean(figures: Iterable[float]) -> float:
    """The mean; 0 for no figures."""
    values = list(figures)
    return sum(values) / len(values) if values else 0.0
