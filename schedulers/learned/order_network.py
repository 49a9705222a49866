"""LACHESIS's network in numpy: scores for the next stage (arXiv 2103.06980, section IV-B).

    e' = g(sum of the children's e) + h(sum of transfers along outgoing edges) + x        (equation 7)

three times with the same g and h, where x is a transform of the stage's features. The embedding e of a stage depends on
the stages below, which are assigned later, and on their estimates, so embeddings are computed once for a job. A job's
summary is made of the mean over its unassigned stages, and the summary of all jobs of the mean over jobs; means rather
than sums, so that more jobs than in training lead to no numbers outside the range of training.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from schedulers.learned.graph import Doubles
from schedulers.learned.network import parts_of, scored, transformed
from schedulers.learned.routes import Route, RouteChoices
from schedulers.learned.weights import OrderSizes, Weights

#: Number of dead jobs that may be remembered in addition to the live jobs.
_GONE: Final = 64


class _Known(NamedTuple):
    """Results kept for a route."""

    route: Route
    own: Doubles
    """[stages, features + embedding]."""
    terms: Doubles
    """[stages, embedding], contributions to the job's mean."""


class OrderNetwork:
    """LACHESIS's network, with results of each job kept until its estimates change. One network serves one cluster."""

    def __init__(self, weights: Weights) -> None:
        assert isinstance(weights.architecture, OrderSizes)
        self.weights, self._parts, self._layers = weights, parts_of(weights), weights.architecture.layers
        self._known: dict[str, _Known] = {}

    def scores(self, choices: RouteChoices) -> Doubles:
        """[valid rows]: scores. Only differences between scores have a meaning."""
        known = [self._of(route) for route in choices.routes]
        if len(self._known) > len(known) + _GONE:
            self._known = {each.route.name: each for each in known}
        features = choices.features.astype(np.float64)
        sizes = np.array([len(each.own) for each in known])
        begins = np.cumsum(sizes) - sizes
        terms = np.concatenate([each.terms for each in known]) * choices.left[:, None]
        sums = np.add.reduceat(terms, begins) / np.add.reduceat(choices.left.astype(float), begins)[:, None]
        jobs = transformed(self._parts["job"], np.concatenate((sums, features), axis=1))
        world = transformed(self._parts["world"], jobs.mean(axis=0, keepdims=True))
        rows = np.flatnonzero(choices.valid)
        owners = np.repeat(np.arange(len(sizes)), sizes)[rows]
        own = np.concatenate([each.own for each in known])[rows]
        (weight, bias), *rest = self._parts["stage"]
        read = stage_inputs(own, features[owners], jobs[owners], np.broadcast_to(world, (len(rows), world.shape[1])))
        return scored(read @ weight + bias, tuple(rest))

    def _of(self, route: Route) -> _Known:
        known = self._known.get(route.name)
        if known is None or known.route is not route:
            known = self._known[route.name] = self._embedded(route)
        return known

    def _embedded(self, route: Route) -> _Known:
        nodes = route.nodes.astype(np.float64)
        prepared = transformed(self._parts["prepare"], nodes)
        out = np.zeros((len(nodes), 1))
        np.add.at(out[:, 0], route.edges[:, 0], route.moves)
        steady = transformed(self._parts["moves"], out) + prepared
        embedded = prepared
        for _ in range(self._layers):
            sums = np.zeros_like(embedded)
            np.add.at(sums, route.edges[:, 0], embedded[route.edges[:, 1]])
            embedded = transformed(self._parts["message"], sums) + steady
        own = np.concatenate((nodes, embedded), axis=1)
        return _Known(route, own, transformed(self._parts["row"], own))


#: Index of the job's feature for the length of ways through the job compared with other jobs.
SCALE: Final = OrderSizes.jobs.index("scale")


def stage_inputs(own: Doubles, features: Doubles, jobs: Doubles, world: Doubles) -> Doubles:
    """[rows, inputs of the score]: features as parts of the job's way and of the longest way, and all summaries."""
    nodes = len(OrderSizes.nodes)
    return np.concatenate((own, own[:, :nodes] * features[:, SCALE : SCALE + 1], features, jobs, world), axis=1)
