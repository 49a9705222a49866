"""Decisions with what they were worth, as what a step of training takes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from rm_emulator.learn.critic import WIDTH, beside_others, features, unexplained
from rm_emulator.learn.network import Batch, Decima, Judged, batch
from rm_emulator.learn.returns import advantages
from rm_emulator.learn.rollouts import Decision, Episode
from schedulers.core.errors import UserError

#: Decisions in a row go together: most jobs are the same in them, and are computed once.
RUN: Final = 32


class Diverged(UserError, RuntimeError):
    """A loss or a gradient is no number any more."""


class Lot(NamedTuple):
    """A minibatch. old: [decisions], the log of how likely each was when it was taken; worth: its advantage."""

    given: Batch
    old: Tensor
    worth: Tensor


class Group(NamedTuple):
    """The rollouts of one sequence. horizon_s, makespan: what costs are."""

    episodes: Sequence[Episode]
    horizon_s: float | None
    makespan: bool


def worths(groups: Sequence[Group], rate: float, *, critic: bool) -> np.ndarray:
    """Of all kept decisions: what each saved beside its sequence's mean, in that sequence's deviations.

    rate: live jobs per time, of differential costs. critic: what the state explains is taken off.
    """
    found, states = [], []
    for group in groups:
        times = [np.array([decision.at for decision in episode.decisions], float) for episode in group.episodes]
        outcomes = [each.outcome.makespan() if group.makespan else each.outcome for each in group.episodes]
        found.append(np.concatenate(advantages(times, outcomes, horizon_s=group.horizon_s, rate=rate)))
        if critic:
            seen = [features_of(episode) for episode in group.episodes]
            states.append(np.concatenate(beside_others(times, seen, [outcome.end for outcome in outcomes])))
    if critic:
        for kind in {group[1:] for group in groups}:
            same = [index for index, group in enumerate(groups) if group[1:] == kind]
            left = unexplained(np.concatenate([found[i] for i in same]), np.concatenate([states[i] for i in same]))
            cuts = np.cumsum([len(found[i]) for i in same])[:-1]
            for index, part in zip(same, np.split(left, cuts), strict=True):
                found[index] = part
    return np.concatenate([each / (each.std() + 1e-6) for each in found if len(each)] or [np.zeros(0)])


def features_of(episode: Episode) -> np.ndarray:
    """[decisions, features]."""
    return np.array([features(decision.graph) for decision in episode.decisions]).reshape(-1, WIDTH)


def lots(decisions: Sequence[Decision], worth: np.ndarray, count: int, generator: np.random.Generator) -> list[Lot]:
    """All decisions in `count` minibatches of about the same size, made of runs in a random order."""
    starts = np.arange(0, len(decisions), RUN)
    parts = np.array_split(generator.permutation(starts), min(count, len(starts)))
    return [
        _lot(decisions, worth, [i for start in part for i in range(start, min(start + RUN, len(decisions)))])
        for part in parts
    ]


def _lot(decisions: Sequence[Decision], worth: np.ndarray, indexes: Sequence[int]) -> Lot:
    chosen = [decisions[index] for index in indexes]
    given = batch([each.graph for each in chosen], [each.action for each in chosen])
    old = torch.tensor([each.log_prob for each in chosen], dtype=torch.float32)
    return Lot(given, old, torch.from_numpy(worth[list(indexes)].astype(np.float32)))


def entropy(judged: Judged) -> Tensor:
    """[decisions]: of stage and limit together."""
    return judged.stage_entropy + judged.limit_entropy


def adam(network: Decima, learning_rate: float) -> torch.optim.Adam:
    """The optimiser."""
    return torch.optim.Adam(network.parameters(), lr=learning_rate)


def descend(network: Decima, optimiser: torch.optim.Adam, loss: Tensor, max_norm: float | None) -> None:
    """One step down the gradient. Raises Diverged before anything is changed."""
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
    """0 for none."""
    values = list(figures)
    return sum(values) / len(values) if values else 0.0
