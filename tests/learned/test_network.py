"""The network in numpy: what it may choose from, what it keeps, and what must not change what it says."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from schedulers.learned.graph import NODE_FEATURES, Graph, JobGraph
from schedulers.learned.network import Network, _inner, log_probabilities
from schedulers.learned.weights import ARCHITECTURES, Weights
from tests.learned.drawn import drawn_graph, drawn_job


def trained_somehow(name: str) -> Weights:
    """Weights whose scores are not all about 0, nor their biases."""
    generator, architecture = np.random.default_rng(5), ARCHITECTURES[name]
    shapes = architecture.shapes().items()
    return Weights(architecture, {key: generator.normal(0, 0.3, shape).astype(np.float32) for key, shape in shapes})


WEIGHTS = {name: trained_somehow(name) for name in ARCHITECTURES}
both = pytest.mark.parametrize("name", ARCHITECTURES)


@both
def test_scores_are_of_the_valid_stages_and_of_no_other(name: str) -> None:
    graph = drawn_graph(12, np.random.default_rng(2))
    scores = Network(WEIGHTS[name]).scores(graph)
    valid = [(place, row) for place, job in enumerate(graph.jobs) for row in np.flatnonzero(job.valid)]
    assert list(zip(scores.jobs, scores.rows, strict=True)) == valid
    assert len(set(scores.stages)) == len(valid)


@both
def test_the_order_of_jobs_changes_nothing(name: str) -> None:
    graph = drawn_graph(12, np.random.default_rng(3))
    order = np.random.default_rng(4).permutation(12)
    there, here = Network(WEIGHTS[name]), Network(WEIGHTS[name])
    scores = there.scores(graph)
    found = here.scores(shuffled := Graph(tuple(graph.jobs[place] for place in order), 50))
    by_stage = {(order[job], row): score for job, row, score in zip(*found, strict=True)}
    expected = {(job, row): score for job, row, score in zip(*scores, strict=True)}
    assert by_stage == pytest.approx(expected, abs=1e-12)
    assert here.limits(shuffled, 0)[1] == pytest.approx(there.limits(graph, int(order[0]))[1], abs=1e-12)


@both
def test_the_order_of_a_jobs_stages_changes_nothing(name: str) -> None:
    job = drawn_job("j", np.random.default_rng(6), stages=9)
    order = np.random.default_rng(7).permutation(9)
    place = np.argsort(order)
    other = msgspec.structs.replace(
        job,
        nodes=job.nodes[order],
        heights=job.heights[order],
        edges=place[job.edges],
        valid=np.ones(9, bool),
    )
    job = msgspec.structs.replace(job, valid=np.ones(9, bool))
    scores = Network(WEIGHTS[name]).scores(Graph((job,), 50))
    assert Network(WEIGHTS[name]).scores(Graph((other,), 50)).stages == pytest.approx(scores.stages[order], abs=1e-12)


@both
@pytest.mark.drawn(of=4)
def test_what_is_kept_of_jobs_says_the_same_as_computing_anew(name: str) -> None:
    generator, kept = np.random.default_rng(8), Network(WEIGHTS[name])
    jobs = [drawn_job(f"j{index}", generator) for index in range(20)]
    for version in range(1, 100):
        for index in generator.choice(len(jobs), 4, replace=False):
            change = (another, started, given, finished)[generator.integers(4)]
            jobs[index] = msgspec.structs.replace(change(jobs[index], generator), version=version)
        graph = Graph(tuple(jobs), 50)
        assert kept.scores(graph).stages == pytest.approx(Network(WEIGHTS[name]).scores(graph).stages, abs=1e-12)


def another(job: JobGraph, generator: np.random.Generator) -> JobGraph:
    """Another job, of the same name or not."""
    return drawn_job(generator.choice([job.name, f"{job.name}+"]), generator)


def started(job: JobGraph, generator: np.random.Generator) -> JobGraph:
    """Tasks of some stage were started."""
    nodes = job.nodes.copy()
    nodes[generator.integers(len(nodes)), 0] = generator.random()
    return msgspec.structs.replace(job, nodes=nodes)


def given(job: JobGraph, generator: np.random.Generator) -> JobGraph:
    """The job got executors."""
    nodes = job.nodes.copy()
    nodes[:, NODE_FEATURES.index("job_executors")] = generator.random()
    return msgspec.structs.replace(job, nodes=nodes)


def finished(job: JobGraph, generator: np.random.Generator) -> JobGraph:
    """A stage without parents is done, and is seen no more."""
    left = np.setdiff1d(np.arange(len(job.nodes)), generator.choice(np.flatnonzero(~_inner(job))))
    if len(left) == 0:
        return drawn_job(job.name, generator)
    edges = job.edges[np.isin(job.edges, left).all(axis=1)]
    return msgspec.structs.replace(
        job,
        nodes=job.nodes[left],
        stages=job.stages[left],
        heights=job.heights[left],
        edges=np.searchsorted(left, edges),
        valid=np.ones(len(left), bool),
    )


def test_a_job_of_the_same_version_is_not_computed_again() -> None:
    generator = np.random.default_rng(9)
    network, job = Network(WEIGHTS["decima"]), drawn_job("j", generator)
    scores = network.scores(Graph((job,), 50)).stages
    unseen = msgspec.structs.replace(job, nodes=job.nodes + 1)
    assert (network.scores(Graph((unseen,), 50)).stages == scores).all()
    assert (network.scores(Graph((msgspec.structs.replace(unseen, version=1),), 50)).stages != scores).all()


def test_jobs_that_are_gone_are_forgotten() -> None:
    generator, network = np.random.default_rng(10), Network(WEIGHTS["decima"])
    for index in range(500):
        network.scores(Graph((drawn_job(f"j{index}", generator),), 50))
    assert len(network._blocks) < 100


@both
def test_limits_are_scored_by_what_is_known_of_their_job(name: str) -> None:
    graph, network = drawn_graph(5, np.random.default_rng(11)), Network(WEIGHTS[name])
    network.scores(graph)
    limits, scores = network.limits(graph, 2)
    assert limits[0] == graph.jobs[2].least
    assert len(limits) == len(scores) == len(set(scores))


def test_log_probabilities_are_those_of_a_softmax_even_of_large_scores() -> None:
    scores = np.array([1e4, 1e4 + 1, 1e4 - 2])
    chances = np.exp(log_probabilities(scores))
    assert chances.sum() == pytest.approx(1)
    assert chances[1] / chances[0] == pytest.approx(np.e)
