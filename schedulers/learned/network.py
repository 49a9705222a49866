"""Decima's network in numpy: scores for stages and limits (SIGCOMM'19, sections 5.1 and 5.2).

Numbers are float64, so that a job's embedding agrees to the 15th digit, whichever jobs were computed together with it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from schedulers.learned.graph import NODE_FEATURES, Bools, Doubles, Floats, Graph, Ints, JobGraph, able
from schedulers.learned.guide import guide, is_said
from schedulers.learned.layers import layers
from schedulers.learned.limits import candidates
from schedulers.learned.weights import Architecture, Weights

Part: TypeAlias = "tuple[tuple[Doubles, Doubles], ...]"

#: Slope of the leaky ReLU between layers for negative numbers.
SLOPE: Final = 0.2
#: The network reads the logarithm of a limit divided by the logarithm of this number: ratios matter, not differences.
LIMIT_SCALE: Final = 50
#: Scores this near each other count as equal: their order may depend on the jobs computed together with them.
_EQUAL: Final = 1e-9
#: Number of dead jobs that may be remembered in addition to the live jobs.
_GONE: Final = 64


class _Block(NamedTuple):
    """Results kept for a job."""

    job: JobGraph
    """The job at the time of the computation."""
    inner: Bools
    """[n], whether a stage hands on a message."""
    below: Doubles
    """[n, embedding], contribution of the children's messages to each stage."""
    rows: Doubles
    """[n, head], contribution of each stage to the first layer of the stages' head."""
    limit: Doubles
    """[head], contribution of the job to the first layer of the limits' head."""
    term: Doubles
    """[embedding], contribution of the job to the sum over jobs."""
    summary: Doubles
    """[embedding], sum over the job's stages, transformed."""


class Scores(NamedTuple):
    """Scores of the k valid stages, sorted by job, then row."""

    jobs: Ints
    """[k], index in Graph.jobs."""
    rows: Ints
    """[k], index in the job's rows."""
    stages: Doubles
    """[k], the scores."""


class Network:
    """Decima's network, with results of each job kept until the job's version changes.

    One network serves one cluster: names and versions belong to one course of events.
    """

    def __init__(self, weights: Weights) -> None:
        self.weights, self._parts = weights, parts_of(weights)
        assert isinstance(weights.architecture, Architecture)
        self._passes = list(weights.architecture.passed)
        self._is_passed = np.isin(np.arange(len(NODE_FEATURES)), self._passes)
        self._is_guided = weights.architecture.guided
        self._split_heads(weights.architecture.embedding)
        self._blocks: dict[str, _Block] = {}
        self._world: Doubles = np.zeros(weights.architecture.embedding)
        self._features: Doubles = np.zeros((0, 0))

    def _split_heads(self, wide: int) -> None:
        """Split the first layer of each head by its inputs: inputs shared by many rows are multiplied once."""
        (stage, self._stage_bias), *rest = self._parts["stage"]
        self._stage_rest: Part = tuple(rest)
        own = len(NODE_FEATURES) + wide
        self._stage_row, self._stage_job = stage[:own], stage[own : own + wide]
        self._stage_features, self._stage_world = stage[own + wide : -wide], stage[-wide:]
        (limit, self._limit_bias), *rest = self._parts["limit"]
        self._limit_rest: Part = tuple(rest)
        values = 1 + self._is_guided
        self._limit_job, self._limit_features = limit[:wide], limit[wide : -wide - values]
        self._limit_world, self._limit_value = limit[-wide - values : -values], limit[-values:]
        self.scores_classes = "class" in self._parts

    def scores(self, graph: Graph) -> Scores:
        """Scores of all valid stages. Only differences between scores have a meaning."""
        blocks = self._known(graph.jobs)
        terms = np.concatenate([block.term for block in blocks]).reshape(len(blocks), -1)
        world = self._apply("world", terms.sum(axis=0, keepdims=True))[0]
        self._world = world
        features = self._features = features_of(graph, guided=self._is_guided).astype(np.float64)
        shared = features @ self._stage_features + (world @ self._stage_world + self._stage_bias)
        sizes = np.array([len(job.valid) for job in graph.jobs])
        rows = np.flatnonzero(np.concatenate([job.valid for job in graph.jobs]))
        jobs = np.repeat(np.arange(len(sizes)), sizes)[rows]
        first = np.concatenate([block.rows for block in blocks])[rows]
        scores = scored(first + shared[jobs], self._stage_rest)
        begins: Ints = np.cumsum(sizes) - sizes
        return Scores(jobs, rows - begins[jobs], scores)

    def limits(self, graph: Graph, job: int) -> tuple[tuple[int, ...], Doubles]:
        """Limits to choose from for a job with a valid stage, and their scores. The call follows one of `scores`."""
        chosen = graph.jobs[job]
        limits = candidates(chosen.least, graph.executors)
        shared = self._blocks[chosen.name].limit + self._features[job] @ self._limit_features
        shared = shared + (self._world @ self._limit_world + self._limit_bias)
        values = limit_features(limits, self._features[job], guided=self._is_guided)
        return limits, scored(shared + values @ self._limit_value, self._limit_rest)

    def classes(self, graph: Graph, job: int, row: int) -> tuple[tuple[int, ...], Doubles]:
        """Executor classes with room for a stage, and their scores; none without a choice or a head for classes.

        The call follows one of `scores`.
        """
        there = able(graph, job, row) if self.scores_classes else ()
        if not there:
            return (), np.zeros(0)
        shared = np.concatenate((self._blocks[graph.jobs[job].name].summary, self._features[job], self._world))
        read = np.concatenate((np.tile(shared, (len(there), 1)), class_features(graph, job, row)), axis=1)
        (weight, bias), *rest = self._parts["class"]
        return there, scored(read @ weight + bias, tuple(rest))

    def _known(self, jobs: Sequence[JobGraph]) -> list[_Block]:
        known = self._blocks
        changed = [job for job in jobs if job.name not in known or known[job.name].job.version != job.version]
        if changed:
            self._embed(changed)
            if len(known) > len(jobs) + _GONE:
                self._blocks = known = {job.name: known[job.name] for job in jobs}
        return [known[job.name] for job in jobs]

    def _embed(self, jobs: Sequence[JobGraph]) -> None:
        """Compute and keep the results of jobs that are new or have changed."""
        sizes = np.array([len(job.nodes) for job in jobs])
        ends = np.cumsum(sizes)
        begins = ends - sizes
        nodes = np.concatenate([job.nodes for job in jobs])
        inner, below = self._passed(jobs, nodes, begins)
        nodes = nodes.astype(np.float64)
        own = np.concatenate((nodes, self._apply("prepare", nodes[:, self._passes]) + np.concatenate(below)), axis=1)
        summaries = self._apply("job", np.add.reduceat(self._apply("row", own), begins))
        terms = self._apply("term", summaries)
        rows = own.dot(self._stage_row) + np.repeat(summaries.dot(self._stage_job), sizes, axis=0)
        limits = summaries.dot(self._limit_job)
        for index, (job, begin, end) in enumerate(zip(jobs, begins.tolist(), ends.tolist(), strict=True)):
            kept = (inner[index], below[index], rows[begin:end], limits[index], terms[index], summaries[index])
            self._blocks[job.name] = _Block(job, *kept)

    def _passed(self, jobs: Sequence[JobGraph], nodes: Floats, begins: Ints) -> tuple[list[Bools], list[Doubles]]:
        """By job `inner` and `below`: the kept arrays, unless an input of the job's messages has changed."""
        before, inner, below = map(list, zip(*map(self._kept, jobs), strict=True))
        differs = ((np.concatenate(before) != nodes) & self._is_passed).any(axis=1) & np.concatenate(inner)
        stale = np.logical_or.reduceat(differs, begins) | [found is None for found in below]
        if stale.any():
            places = np.flatnonzero(stale).tolist()
            for place, found in zip(places, self._pass([jobs[place] for place in places]), strict=True):
                below[place] = found
        return inner, below

    def _kept(self, job: JobGraph) -> tuple[Floats, Bools, Doubles | None]:
        """Nodes at the last computation, `inner` and `below` of the unfinished stages; `below` is None where unknown.

        A stage that finishes changes nothing below the unfinished stages, because none of them is its parent.
        """
        block = self._blocks.get(job.name)
        if block is None:
            return job.nodes, _inner(job), None
        if job.edges is block.job.edges:
            return block.job.nodes, block.inner, block.below
        left = np.isin(block.job.stages, job.stages)
        place = np.where(left, np.cumsum(left) - 1, -1)
        edges = block.job.edges[left[block.job.edges[:, 0]]]
        if np.count_nonzero(left) < len(job.stages) or not np.array_equal(place[edges], job.edges):
            return job.nodes, _inner(job), None
        return block.job.nodes[left], _inner(job), block.below[left]

    def _pass(self, jobs: Sequence[JobGraph]) -> list[Doubles]:
        """By job the messages that reach each stage, from the leaves up; each stage hands on one message."""
        table = layers(jobs)
        embedded = self._apply("prepare", table.nodes[table.order][:, self._passes].astype(np.float64))
        below, messages = np.zeros_like(embedded), np.empty_like(embedded)
        messages[: table.leaves] = self._apply("message", embedded[: table.leaves])
        for low, high, first, last in table.layers:
            starts = table.starts[low - table.leaves : high - table.leaves] - first
            sums = np.add.reduceat(messages[table.child[first:last]], starts)
            below[low:high] = self._apply("node", sums)
            messages[low:high] = self._apply("message", embedded[low:high] + below[low:high])
        return np.split(below[table.place], table.ends[:-1])

    def _apply(self, part: str, values: Doubles) -> Doubles:
        """A transform; the identity where the architecture has no such part."""
        return transformed(self._parts.get(part, ()), values)


def parts_of(weights: Weights) -> dict[str, Part]:
    """Layers of each part: weights and biases."""
    parts: dict[str, Part] = {}
    for name, array in weights.arrays.items():
        part, _, kind = name.split(".")
        if kind == "weight":
            bias = weights.arrays[name.removesuffix("weight") + "bias"]
            parts[part] = (*parts.get(part, ()), (array.astype(np.float64), bias.astype(np.float64)))
    return parts


def transformed(part: Part, values: Doubles) -> Doubles:
    """The output of all layers of a part, an activation after each."""
    for weight, bias in part:
        values = values.dot(weight)
        values += bias
        np.maximum(values, values * SLOPE, out=values)
    return values


def features_of(graph: Graph, *, guided: bool) -> Floats:
    """[jobs, len(JOB_FEATURES)], with len(GUIDE_FEATURES) more where the network is guided."""
    features = np.concatenate([job.features for job in graph.jobs]).reshape(len(graph.jobs), -1)
    return np.concatenate((features, guide(graph)), axis=1) if guided else features


def limit_features(limits: Sequence[int], features: Floats | Doubles, *, guided: bool) -> Doubles:
    """[limits, 1], inputs of the limits' head; [limits, 2] in a guided network, with 1 at the rule's limit.

    features: the job's row of `features_of`.
    """
    logs = np.log(limits)[:, None]
    values: Doubles = logs / math.log(LIMIT_SCALE)
    return np.concatenate((values, is_said(logs, float(features[-1]))), axis=1) if guided else values


def class_features(graph: Graph, job: int, row: int) -> Doubles:
    """[classes with room for the stage, len(CLASS_FEATURES)]."""
    rooms = graph.jobs[job].rooms
    assert rooms is not None
    there = list(able(graph, job, row))
    return np.stack((np.array(graph.classes)[there], rooms[row, there] / 20), axis=1)


def _inner(job: JobGraph) -> Bools:
    inner = np.zeros(len(job.nodes), bool)
    inner[job.edges[:, 1]] = True
    return inner


def scored(values: Doubles, rest: Part) -> Doubles:
    """[k] scores from [k, head], the input of the first layer's activation."""
    for weight, bias in rest:
        values = np.maximum(values, values * SLOPE) @ weight
        values += bias
    return values[:, 0]


def log_probabilities(scores: Doubles) -> Doubles:
    """[k]: log-probabilities of the choices with these scores."""
    shifted = scores - scores.max()
    chances: Doubles = shifted - np.log(np.exp(shifted).sum())
    return chances


def best_of(scores: Doubles) -> int:
    """Index of the best score; of equal scores the first."""
    return int(np.argmax(scores >= scores.max() - _EQUAL))
