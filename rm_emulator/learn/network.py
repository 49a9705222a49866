"""Decima's network in torch, for many graphs at once, as the source of gradients.

The same network as `schedulers.learned.network`, with the same order of computing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from rm_emulator.learn.agents import Decision
from schedulers.learned.graph import CLASS_FEATURES, Action, Graph, Ints, JobGraph, able, class_of
from schedulers.learned.layers import Layers, layers
from schedulers.learned.limits import candidates
from schedulers.learned.network import SLOPE, class_features, features_of, limit_features
from schedulers.learned.weights import Architecture, Weights


class Batch(NamedTuple):
    """Decisions: graphs and the choices made there.

    A job with the same `nodes` in several graphs is one block of the table; an occurrence is a job in a graph. There
    are k valid stages, l limits of the chosen jobs, and c executor classes with room for the chosen stages.
    """

    nodes: Tensor
    """[n, features], by place."""
    table: LayerTable
    block: Tensor
    """[occurrences], block of the table."""
    graph: Tensor
    """[occurrences], the graph."""
    features: Tensor
    """[occurrences, features]."""
    row: Tensor
    """[k], row in the table."""
    stage_job: Tensor
    """[k], occurrence."""
    stage_graph: Tensor
    """[k], graph."""
    limit: Tensor
    """[l, features]."""
    limit_graph: Tensor
    """[l], graph."""
    classes: Tensor
    """[c, features]."""
    class_graph: Tensor
    """[c], graph."""
    job: Tensor
    """[graphs], the chosen occurrence."""
    stage: Tensor
    """[graphs], the choice among the k stages."""
    value: Tensor
    """[graphs], the choice among the l limits."""
    of_class: Tensor
    """[graphs with classes], the choice among the c classes."""
    classed: Tensor
    """[graphs with classes], the graph."""


class LayerTable(NamedTuple):
    """See Layers. steps: places of each layer, and indexes of children and of parents, the latter within the layer."""

    place: Tensor
    owner: Tensor
    leaves: int
    steps: tuple[tuple[int, int, Tensor, Tensor], ...]


class Evaluation(NamedTuple):
    """The network's answer to a batch."""

    log_probability: Tensor
    """[graphs], of the action."""
    stage_entropy: Tensor
    """[graphs], over all valid stages."""
    limit_entropy: Tensor
    """[graphs], over all limits of the chosen job, with the entropy of executor classes."""
    stages: Tensor
    """[k], log-probabilities."""
    limits: Tensor
    """[l], log-probabilities."""
    classes: Tensor
    """[c], log-probabilities."""
    value: Tensor | None = None
    """[graphs], expectation of the critic, where the network has a critic."""


def batch(
    graphs: Sequence[Graph], actions: Sequence[Action], *, guided: bool = False, dtype: torch.dtype = torch.float32
) -> Batch:
    """Graphs, each with its action. Raises ValueError for an action outside the choices.

    guided: as in the network's architecture.
    """
    blocks: dict[int, int] = {}
    unique: list[JobGraph] = []
    every = [job for graph in graphs for job in graph.jobs]
    for job in every:
        if id(job.nodes) not in blocks:
            blocks[id(job.nodes)] = len(unique)
            unique.append(job)
    found = layers(unique)
    block = np.array([blocks[id(job.nodes)] for job in every])
    counts = [len(graph.jobs) for graph in graphs]
    firsts = np.cumsum(counts) - counts
    chosen = firsts + np.array([action.job for action in actions])
    sizes = np.array([len(job.valid) for job in every])
    offsets = np.cumsum(sizes) - sizes
    valid = np.flatnonzero(np.concatenate([job.valid for job in every]))
    stage_job = np.repeat(np.arange(len(every)), sizes)[valid]
    begins = found.ends - np.diff(found.ends, prepend=0)
    stage = positions(valid, offsets[chosen] + np.array([action.row for action in actions]), "stage")
    options = [candidates(every[job].least, graph.executors) for job, graph in zip(chosen, graphs, strict=True)]
    lengths = [len(option) for option in options]
    values = np.array([limit for option in options for limit in option])
    limit_graph = np.repeat(np.arange(len(graphs)), lengths)
    said = np.array([action.limit for action in actions])
    apart = max(values.max(initial=0), said.max()) + 1  # so that all limits of all graphs are one ascending sequence
    value = positions(values + limit_graph * apart, said + np.arange(len(graphs)) * apart, "limit")
    graph = np.repeat(np.arange(len(graphs)), counts)
    classes, class_graph, of_class = _classes(graphs, actions)
    features = np.concatenate([features_of(graph, guided=guided) for graph in graphs])
    read = [limit_features(each, features[job], guided=guided) for each, job in zip(options, chosen, strict=True)]
    return Batch(
        torch.from_numpy(found.nodes[found.order]).to(dtype),
        _table(found),
        torch.from_numpy(block),
        torch.from_numpy(graph),
        torch.from_numpy(features).to(dtype),
        torch.from_numpy(begins[block[stage_job]] + valid - offsets[stage_job]),
        torch.from_numpy(stage_job),
        torch.from_numpy(graph[stage_job]),
        torch.from_numpy(np.concatenate(read)).to(dtype),
        torch.from_numpy(limit_graph),
        torch.from_numpy(classes).to(dtype),
        torch.from_numpy(class_graph),
        torch.from_numpy(chosen),
        torch.from_numpy(stage),
        torch.from_numpy(value),
        torch.from_numpy(of_class),
        torch.from_numpy(np.unique(class_graph)),
    )


def _classes(graphs: Sequence[Graph], actions: Sequence[Action]) -> tuple[np.ndarray, Ints, Ints]:
    """The fields `classes`, `class_graph` and `of_class` of a batch."""
    features, class_graph, of_class = [np.zeros((0, len(CLASS_FEATURES)))], list[int](), list[int]()
    for index, (graph, action) in enumerate(zip(graphs, actions, strict=True)):
        there = able(graph, action.job, action.row)
        if there:
            chosen = class_of(graph, action)
            assert chosen is not None
            of_class.append(len(class_graph) + there.index(chosen))
            class_graph += [index] * len(there)
            features.append(class_features(graph, action.job, action.row))
    return np.concatenate(features), np.array(class_graph, np.intp), np.array(of_class, np.intp)


def positions(ascending: Ints, wanted: Ints, what: str) -> Ints:
    """Index of each wanted number. Raises ValueError, with the decision's number, for a missing number."""
    found = np.searchsorted(ascending, wanted)
    if (found >= len(ascending)).any() or (ascending[found] != wanted).any():
        wrong = int(np.flatnonzero(ascending[np.minimum(found, len(ascending) - 1)] != wanted)[0])
        raise ValueError(f"decision {wrong}: its {what} is not among those that might have been chosen")
    return found


def _table(found: Layers) -> LayerTable:
    sizes = np.diff(found.ends, prepend=0)
    steps = tuple(
        (low, high, torch.from_numpy(found.child[first:last]), torch.from_numpy(found.parent[first:last] - low))
        for low, high, first, last in found.layers
    )
    owner = np.repeat(np.arange(len(sizes)), sizes)
    return LayerTable(torch.from_numpy(found.place), torch.from_numpy(owner), found.leaves, steps)


class TorchNetwork(nn.Module, ABC):
    """A network of transforms with the names of `Sizes.widths`."""

    def __init__(self, weights: Weights) -> None:
        super().__init__()
        self.architecture = weights.architecture
        self.parts = nn.ModuleDict()
        for part, widths in self.architecture.widths().items():
            linear = [nn.Linear(inputs, outputs) for inputs, outputs in pairwise(widths)]
            stacked = [module for layer in linear for module in (layer, nn.LeakyReLU(SLOPE))]
            self.parts[part] = nn.Sequential(*(stacked[:-1] if part in self.architecture.scoring else stacked))
        with torch.no_grad():
            for name, parameter in self.named().items():
                parameter.copy_(torch.from_numpy(weights.arrays[name].T))

    @abstractmethod
    def batch(self, decisions: Sequence[Decision[Any, Any]]) -> Any:
        """The argument of `forward` for these decisions."""

    def named(self) -> dict[str, Tensor]:
        """Parameter of each array, by the array's name in weights; the parameter is transposed."""
        named: dict[str, Tensor] = {}
        for name in self.architecture.shapes():
            part, layer, kind = name.split(".")
            named[name] = getattr(self.parts[part][2 * int(layer)], kind)
        return named

    def adam(self, learning_rate: float) -> torch.optim.Adam:
        """An optimiser of these parameters."""
        return torch.optim.Adam(self.parameters(), lr=learning_rate)

    def export(self, about: dict[str, str] | None = None) -> Weights:
        """Weights for the numpy network."""
        arrays = {name: value.detach().cpu().float().numpy().T.copy() for name, value in self.named().items()}
        return Weights(self.architecture, arrays, about or {})


class DecimaNetwork(TorchNetwork):
    """Decima's network."""

    architecture: Architecture

    def batch(self, decisions: Sequence[Decision[Graph, Action]]) -> Batch:
        """See Parts."""
        graphs, actions = [each.graph for each in decisions], [each.action for each in decisions]
        return batch(graphs, actions, guided=self.architecture.guided)

    def forward(self, given: Batch) -> Evaluation:
        """Log-probabilities of the batch's actions and entropies."""
        graphs = len(given.job)
        rows, summaries = self._embed(given)
        terms = self.parts["term"](summaries)[given.block]
        world = self._transform("world", sums(terms, given.graph, graphs))
        own = torch.cat((summaries[given.block], given.features), 1)
        read = (rows[given.row], own[given.stage_job], world[given.stage_graph])
        stages = log_softmax(self.parts["stage"](torch.cat(read, 1))[:, 0], given.stage_graph, graphs)
        read = (own[given.job][given.limit_graph], world[given.limit_graph], given.limit)
        limits = log_softmax(self.parts["limit"](torch.cat(read, 1))[:, 0], given.limit_graph, graphs)
        classes = self._classes(given, own, world)
        of_class = sums(classes[given.of_class], given.classed, graphs)
        return Evaluation(
            stages[given.stage] + limits[given.value] + of_class,
            -sums(stages.exp() * stages, given.stage_graph, graphs),
            -sums(limits.exp() * limits, given.limit_graph, graphs)
            - sums(classes.exp() * classes, given.class_graph, graphs),
            stages,
            limits,
            classes,
        )

    def _classes(self, given: Batch, own: Tensor, world: Tensor) -> Tensor:
        """Log-probabilities of executor classes; 0 without scores for classes, because no class is chosen then."""
        if "class" not in self.parts:
            return given.classes.new_zeros(len(given.class_graph))
        read = (own[given.job][given.class_graph], world[given.class_graph], given.classes)
        return log_softmax(self.parts["class"](torch.cat(read, 1))[:, 0], given.class_graph, len(given.job))

    def _embed(self, given: Batch) -> tuple[Tensor, Tensor]:
        """[n, features + embedding] by row, and [blocks, embedding]."""
        table, prepared = given.table, self.parts["prepare"](given.nodes[:, list(self.architecture.passed)])
        embedded = [prepared[: table.leaves]]
        messages = self.parts["message"](embedded[0])
        for low, high, child, parent in table.steps:
            below = sums(messages[child], parent, high - low)
            embedded.append(prepared[low:high] + self.parts["node"](below))
            messages = torch.cat((messages, self.parts["message"](embedded[-1])))
        rows = torch.cat((given.nodes, torch.cat(embedded)), 1)[table.place]
        summed = sums(self.parts["row"](rows), table.owner, int(table.owner[-1]) + 1)
        return rows, self._transform("job", summed)

    def _transform(self, part: str, values: Tensor) -> Tensor:
        """A transform; the identity where the architecture has no such part."""
        return self.parts[part](values) if part in self.parts else values


def sums(values: Tensor, group: Tensor, groups: int) -> Tensor:
    """Sums over the first dimension, by group."""
    return values.new_zeros((groups, *values.shape[1:])).index_add(0, group, values)


def log_softmax(scores: Tensor, group: Tensor, groups: int) -> Tensor:
    """[k]: log-softmax within each group. No group is empty."""
    top = scores.new_full((groups,), -torch.inf).scatter_reduce(0, group, scores.detach(), "amax")
    shifted = scores - top[group]
    return shifted - sums(shifted.exp(), group, groups).log()[group]
