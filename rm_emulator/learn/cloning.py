"""The warm start: a network learns to decide like a teacher, by the likelihood of the teacher's decisions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from rm_emulator.learn.agents import Chosen, Decision, Seen
from rm_emulator.learn.config import Cloning
from rm_emulator.learn.network import TorchNetwork
from rm_emulator.learn.samples import critic_loss, descend, mean, minibatches
from schedulers.learned.graph import Graph
from schedulers.learned.limits import candidates


def nearest_offered(decision: Decision[Any, Any]) -> Decision[Any, Any]:
    """The decision with the nearest limit among the candidates, because a teacher may name any limit."""
    if not isinstance(decision.graph, Graph):
        return decision
    graph, action = decision.graph, decision.action
    limits = candidates(graph.jobs[action.job].least, graph.executors)
    nearest = min(limits, key=lambda limit: abs(limit - action.limit))
    return decision._replace(action=action._replace(limit=nearest))


def clone(
    network: TorchNetwork,
    decisions: Sequence[Decision[Seen, Chosen]],
    settings: Cloning,
    generator: np.random.Generator,
    report: Callable[[int, float], None] = lambda *_: None,
    critic_targets: np.ndarray | None = None,
) -> None:
    """Some epochs over a teacher's decisions. Raises Diverged.

    report: called with each epoch and its mean loss. critic_targets: targets of the network's critic.
    """
    known = [nearest_offered(decision) for decision in decisions]
    count = max(1, len(known) // settings.minibatch)
    batches = minibatches(network, known, np.zeros(len(known)), count, generator, critic_targets)
    optimiser = network.adam(settings.learning_rate)
    steps = settings.epochs * len(batches)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, settings.learning_rate, total_steps=steps)
    for epoch in range(settings.epochs):
        losses = []
        for index in generator.permutation(len(batches)):
            evaluation = network(batches[index].inputs)
            loss = -evaluation.log_probability.mean()
            descend(network, optimiser, loss + critic_loss(evaluation, batches[index]), 1.0)
            schedule.step()
            losses.append(loss.item())
        report(epoch, mean(losses))
