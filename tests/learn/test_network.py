"""The network in torch: the same as in numpy, with the right gradients, and able to find critical paths."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from tests.learn.conftest import WITHOUT_TORCH

if WITHOUT_TORCH:
    pytest.skip("needs torch: pip install -e '.[learn]'", allow_module_level=True)

# After the skip, because the network imports torch.
import torch

from rm_emulator.learn.network import Batch, DecimaNetwork, batch
from schedulers.learned.graph import NODE_FEATURES, Action, Graph, able
from schedulers.learned.limits import candidates
from schedulers.learned.network import Network, log_probabilities
from schedulers.learned.weights import ARCHITECTURES, Weights, initial
from tests.learned.drawn import drawn_graph, drawn_job, with_classes

both = pytest.mark.parametrize("name", ARCHITECTURES)


def is_guided(name: str) -> bool:
    return ARCHITECTURES[name].guided


def drawn_weights(name: str) -> Weights:
    generator, architecture = np.random.default_rng(1), ARCHITECTURES[name]
    shapes = architecture.shapes().items()
    return Weights(architecture, {key: generator.normal(0, 0.3, shape).astype(np.float32) for key, shape in shapes})


def drawn_decisions(count: int, seed: int, most: int = 12) -> tuple[list[Graph], list[Action]]:
    """Graphs of different sizes; the second half of them shares jobs with the first."""
    generator = np.random.default_rng(seed)
    graphs = [drawn_graph(int(generator.integers(1, most + 1)), generator) for _ in range(count // 2)]
    for graph in graphs[: count - len(graphs)]:
        changed = drawn_job("j0", generator, version=1)
        graphs.append(with_classes(Graph((changed, *graph.jobs[1:]), 60), generator))
    actions = []
    for graph in graphs:
        job = int(generator.integers(len(graph.jobs)))
        row = int(generator.choice(np.flatnonzero(graph.jobs[job].valid)))
        limit = int(generator.choice(candidates(graph.jobs[job].least, graph.executors)))
        there = able(graph, job, row)
        actions.append(Action(job, row, limit, int(generator.choice(there)) if there else None))
    return graphs, actions


@both
def test_torch_and_numpy_say_the_same(name: str) -> None:
    weights = drawn_weights(name)
    graphs, actions = drawn_decisions(20, seed=2)
    judged = DecimaNetwork(weights).double()(batch(graphs, actions, guided=is_guided(name), dtype=torch.float64))
    for graph, action, found in zip(graphs, actions, judged.log_probability.tolist(), strict=True):
        network = Network(weights)
        scores = network.scores(graph)
        chosen = list(zip(scores.jobs, scores.rows, strict=True)).index((action.job, action.row))
        limits, values = network.limits(graph, action.job)
        of_limit = log_probabilities(values)[limits.index(action.limit)]
        classes, values = network.classes(graph, action.job, action.row)
        of_class = log_probabilities(values)[classes.index(action.executor_class)] if classes else 0.0
        assert found == pytest.approx(log_probabilities(scores.stages)[chosen] + of_limit + of_class, abs=1e-6)


@both
def test_float32_is_near_float64(name: str) -> None:
    network, (graphs, actions) = DecimaNetwork(drawn_weights(name)), drawn_decisions(20, seed=3)
    rough = network(batch(graphs, actions, guided=is_guided(name))).log_probability.detach().double()
    fine = network.double()(
        batch(graphs, actions, guided=is_guided(name), dtype=torch.float64)
    ).log_probability.detach()
    assert (rough - fine).abs().max() < 1e-3


@both
def test_many_graphs_at_once_say_the_same_as_each_alone(name: str) -> None:
    network, (graphs, actions) = DecimaNetwork(drawn_weights(name)).double(), drawn_decisions(20, seed=4)
    together = network(batch(graphs, actions, guided=is_guided(name), dtype=torch.float64))
    alone = [
        network(batch([g], [a], guided=is_guided(name), dtype=torch.float64))
        for g, a in zip(graphs, actions, strict=True)
    ]
    for field in ("log_probability", "stage_entropy", "limit_entropy"):
        assert torch.allclose(getattr(together, field), torch.cat([getattr(one, field) for one in alone]))


def test_probabilities_are_of_valid_choices_and_sum_to_1() -> None:
    graphs, actions = drawn_decisions(20, seed=5)
    given = batch(graphs, actions, dtype=torch.float64)
    judged = DecimaNetwork(drawn_weights("decima")).double()(given)
    assert len(judged.stages) == sum(int(job.valid.sum()) for graph in graphs for job in graph.jobs)
    for log_probabilities_, graph in ((judged.stages, given.stage_graph), (judged.limits, given.limit_graph)):
        sums = torch.zeros(20, dtype=torch.float64).index_add(0, graph, log_probabilities_.exp())
        assert torch.allclose(sums, torch.ones(20, dtype=torch.float64))


def test_entropies_are_those_of_the_probabilities() -> None:
    graphs, actions = drawn_decisions(2, seed=6)
    judged = DecimaNetwork(drawn_weights("decima")).double()(batch(graphs[:1], actions[:1], dtype=torch.float64))
    assert judged.stage_entropy.item() == pytest.approx(-(judged.stages.exp() * judged.stages).sum().item())
    assert judged.limit_entropy.item() == pytest.approx(-(judged.limits.exp() * judged.limits).sum().item())


@both
@pytest.mark.drawn(of=4)
def test_gradients_agree_with_finite_differences(name: str) -> None:
    network = DecimaNetwork(drawn_weights(name)).double()
    graphs, actions = drawn_decisions(6, seed=7, most=4)
    given = batch(graphs, actions, guided=is_guided(name), dtype=torch.float64)

    def loss() -> torch.Tensor:
        judged = network(given)
        return judged.log_probability.sum() + judged.stage_entropy.sum() - judged.limit_entropy.sum()

    loss().backward()
    generator, step = np.random.default_rng(8), 1e-6
    for parameter in network.parameters():
        assert parameter.grad is not None
        flat, gradient = parameter.data.view(-1), parameter.grad.view(-1)
        for index in generator.choice(len(flat), min(3, len(flat)), replace=False):
            before = flat[index].item()
            with torch.no_grad():
                flat[index] = before + step
                above = loss().item()
                flat[index] = before - step
                below = loss().item()
                flat[index] = before
            assert gradient[index].item() == pytest.approx((above - below) / (2 * step), rel=1e-4, abs=1e-6)


@both
def test_exported_weights_are_those_that_came_in(name: str) -> None:
    weights = drawn_weights(name)
    exported = DecimaNetwork(weights).export({"seed": "1"})
    assert exported.about == {"seed": "1"}
    assert exported.arrays.keys() == weights.arrays.keys()
    assert all((exported.arrays[key] == array).all() for key, array in weights.arrays.items())


@pytest.mark.parametrize(("change", "what"), [({"row": 1}, "stage"), ({"limit": 5}, "limit"), ({"limit": 99}, "limit")])
def test_a_choice_that_was_not_there_is_refused(change: dict[str, int], what: str) -> None:
    job = drawn_job("j", np.random.default_rng(9), stages=16)
    valid = np.zeros(16, bool)
    valid[0] = True
    job = msgspec.structs.replace(job, valid=valid, least=7)
    graphs, actions = [Graph((job,), 50)] * 3, [Action(0, 0, 7)] * 3
    actions[1] = actions[1]._replace(**change)
    with pytest.raises(ValueError, match=f"decision 1: its {what} is not among those that might have been chosen"):
        batch(graphs, actions)


# -- what the network can express (Decima, appendix E) ----------------------------------------------

STAGES = 12


def drawn_dag(generator: np.random.Generator) -> Graph:
    """One job of up to two parents a stage, whose stages differ in nothing but the feature `work`."""
    job = drawn_job("j", generator, stages=STAGES)
    kept = generator.random(len(job.edges)) < 2 / 3
    edges, heights = job.edges[kept], np.zeros(STAGES, np.intp)
    for parent, child in sorted(edges.tolist(), reverse=True):
        heights[parent] = max(heights[parent], heights[child] + 1)
    nodes = np.zeros_like(job.nodes)
    nodes[:, NODE_FEATURES.index("work")] = generator.random(STAGES)
    return Graph((msgspec.structs.replace(job, nodes=nodes, edges=edges, heights=heights),), 50)


def longest_ways(graph: Graph) -> np.ndarray:
    """By stage the work on the longest way down."""
    job = graph.jobs[0]
    lengths = job.nodes[:, NODE_FEATURES.index("work")].copy()
    for row in np.argsort(job.heights, kind="stable"):
        below = job.edges[job.edges[:, 0] == row, 1]
        lengths[row] += lengths[below].max(initial=0)
    return lengths


def dags(seed: int, count: int) -> tuple[Batch, torch.Tensor]:
    """So many, with the lengths of their ways: [count, stages]."""
    generator = np.random.default_rng(seed)
    graphs = [drawn_dag(generator) for _ in range(count)]
    lengths = torch.from_numpy(np.array([longest_ways(graph) for graph in graphs]))
    return batch(graphs, [Action(0, 0, graph.jobs[0].least) for graph in graphs]), lengths


@pytest.mark.slow
@pytest.mark.drawn(of=8)
def test_it_learns_to_find_the_stage_with_the_longest_way_to_go() -> None:
    torch.manual_seed(0)
    network = DecimaNetwork(initial(ARCHITECTURES["decima"], np.random.default_rng(0)))
    wide, steps = network.architecture.embedding, 800
    read = torch.nn.Linear(wide, 1)
    parameters = [*network.parameters(), *read.parameters()]
    optimiser = torch.optim.Adam(parameters, lr=0.03)
    slower = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)

    def guesses(given: Batch) -> torch.Tensor:
        rows, _ = network._embed(given)
        return read(rows[:, -wide:]).view(-1, STAGES)

    seen = [dags(seed, 100) for seed in range(40)]
    for step in range(steps):
        given, lengths = seen[step % len(seen)]
        loss = ((guesses(given) - lengths) ** 2).mean()
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 0.5)
        optimiser.step()
        slower.step()
    unseen, lengths = dags(99, 300)
    assert (guesses(unseen).argmax(1) == lengths.argmax(1)).float().mean() > 0.95
