"""Choices drawn at random, as a policy that says which stage is next might see them."""

from __future__ import annotations

import numpy as np

from schedulers.learned.routes import LEFT_FEATURES, ROUTE_FEATURES, Route, RouteChoices
from schedulers.learned.weights import LACHESIS, Weights
from tests.learned.drawn import drawn_job


def trained_somehow() -> Weights:
    """Weights whose scores are not all about 0, nor their biases."""
    generator, shapes = np.random.default_rng(5), LACHESIS.shapes().items()
    return Weights(LACHESIS, {key: generator.normal(0, 0.3, shape).astype(np.float32) for key, shape in shapes})


def drawn_choices(jobs: int, generator: np.random.Generator) -> RouteChoices:
    """So many jobs of up to 17 stages, of which half are left and a third of these may be chosen."""
    routes, left, valid = [], [], []
    for index in range(jobs):
        drawn = drawn_job(f"j{index}", generator)
        nodes = generator.random((len(drawn.nodes), len(ROUTE_FEATURES)), np.float32)
        routes.append(Route(drawn.name, nodes, drawn.edges, generator.random(len(drawn.edges), np.float32)))
        left.append(generator.random(len(nodes)) < 1 / 2)
        left[-1][0] = True
        valid.append(left[-1] & drawn.valid)
    features = generator.random((jobs, len(LEFT_FEATURES)), np.float32)
    return RouteChoices(tuple(routes), features, np.concatenate(left), np.concatenate(valid), 1000.0, 50)
