"""LACHESIS's network in torch, for many decisions at once, with its critic.

The same network as `schedulers.learned.order_network`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from rm_emulator.learn.agents import Decision
from rm_emulator.learn.network import Evaluation, TorchNetwork, log_softmax, positions, sums
from schedulers.learned.order_network import SCALE
from schedulers.learned.routes import Route, RouteChoices
from schedulers.learned.weights import OrderSizes


class OrderBatch(NamedTuple):
    """Decisions: choices and the rows chosen there.

    A route shared by several decisions is in the table once; an occurrence is a job in a decision. There are k valid
    rows.
    """

    nodes: Tensor
    """[n, features]."""
    out: Tensor
    """[n, 1], sum of transfers along outgoing edges."""
    parent: Tensor
    """[e], row of the table."""
    child: Tensor
    """[e], row of the table."""
    features: Tensor
    """[occurrences, features]."""
    graph: Tensor
    """[occurrences], the decision."""
    left: Tensor
    """Rows with unassigned tasks."""
    left_job: Tensor
    """Occurrence of each row in `left`."""
    row: Tensor
    """[k], row of the table."""
    stage_job: Tensor
    """[k], occurrence."""
    stage_graph: Tensor
    """[k], decision."""
    stage: Tensor
    """[decisions], the choice among the k rows."""


def order_batch(seen: Sequence[RouteChoices], rows: Sequence[int], *, dtype: torch.dtype = torch.float32) -> OrderBatch:
    """Choices, each with the chosen row. Raises ValueError for a row outside the choices."""
    numbers: dict[int, int] = {}
    unique: list[Route] = []
    for choices in seen:
        for route in choices.routes:
            if id(route) not in numbers:
                numbers[id(route)] = len(unique)
                unique.append(route)
    sizes = np.array([len(route.nodes) for route in unique])
    begins = np.cumsum(sizes) - sizes
    out = np.zeros((int(sizes.sum()), 1))
    for route, begin in zip(unique, begins, strict=True):
        np.add.at(out[:, 0], begin + route.edges[:, 0], route.moves)
    edges = np.concatenate([route.edges + begin for route, begin in zip(unique, begins, strict=True)])
    block = np.array([numbers[id(route)] for choices in seen for route in choices.routes])
    graph = np.repeat(np.arange(len(seen)), [len(choices.routes) for choices in seen])
    many = sizes[block]
    offsets = np.cumsum(many) - many
    owner = np.repeat(np.arange(len(block)), many)
    places = np.arange(int(many.sum())) - offsets[owner] + begins[block[owner]]
    left = np.flatnonzero(np.concatenate([choices.left for choices in seen]))
    valid = np.flatnonzero(np.concatenate([choices.valid for choices in seen]))
    lengths = np.array([len(choices.valid) for choices in seen])
    chosen = np.cumsum(lengths) - lengths + np.array(rows)
    return OrderBatch(
        torch.from_numpy(np.concatenate([route.nodes for route in unique])).to(dtype),
        torch.from_numpy(out).to(dtype),
        torch.from_numpy(edges[:, 0]),
        torch.from_numpy(edges[:, 1]),
        torch.from_numpy(np.concatenate([choices.features for choices in seen])).to(dtype),
        torch.from_numpy(graph),
        torch.from_numpy(places[left]),
        torch.from_numpy(owner[left]),
        torch.from_numpy(places[valid]),
        torch.from_numpy(owner[valid]),
        torch.from_numpy(graph[owner[valid]]),
        torch.from_numpy(positions(valid, chosen, "stage")),
    )


class Lachesis(TorchNetwork):
    """LACHESIS's network."""

    architecture: OrderSizes

    def batch(self, decisions: Sequence[Decision[RouteChoices, int]]) -> OrderBatch:
        """See Parts."""
        return order_batch([each.graph for each in decisions], [each.action for each in decisions])

    def forward(self, given: OrderBatch) -> Evaluation:
        """Log-probabilities of the batch's choices, entropies, and the critic's expectations."""
        prepared = self.parts["prepare"](given.nodes)
        steady, embedded = self.parts["moves"](given.out) + prepared, prepared
        for _ in range(self.architecture.layers):
            below = sums(embedded[given.child], given.parent, len(embedded))
            embedded = self.parts["message"](below) + steady
        own = torch.cat((given.nodes, embedded), 1)
        jobs = self._mean(self.parts["row"](own)[given.left], given.left_job, len(given.graph))
        jobs = self.parts["job"](torch.cat((jobs, given.features), 1))
        decisions = len(given.stage)
        world = self.parts["world"](self._mean(jobs, given.graph, decisions))
        features, rows = given.features[given.stage_job], own[given.row]
        scaled = given.nodes[given.row] * features[:, SCALE : SCALE + 1]
        read = torch.cat((rows, scaled, features, jobs[given.stage_job], world[given.stage_graph]), 1)
        stages = log_softmax(self.parts["stage"](read)[:, 0], given.stage_graph, decisions)
        entropy = -sums(stages.exp() * stages, given.stage_graph, decisions)
        value = self.parts["value"](world)[:, 0]
        return Evaluation(
            stages[given.stage], entropy, torch.zeros_like(entropy), stages, stages[:0], stages[:0], value
        )

    @staticmethod
    def _mean(values: Tensor, group: Tensor, groups: int) -> Tensor:
        """Means over the first dimension, by group. No group is empty."""
        counts = sums(torch.ones_like(values[:, :1]), group, groups)
        return sums(values, group, groups) / counts
