"""The agent that spark-sched-sim released, to be measured beside ours: a plug-in that reads its weights and keeps none.

Weights: models/decima/model.pt of ArchieGertsman/spark-sched-sim (MIT). Re-implemented in numpy from schedulers/decima
of that repository (scheduler.py, env_wrapper.py, utils.py), with what is odd there kept: a stage's messages may be
summed over a part of its children first, and where no job has an edge left stages are prepared but not updated. There
a stage is chosen once a round at most, and executors that are left then stay idle; here they go where they are sent
again.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import numpy as np

from rm_emulator.issues import InvalidInput, Issue
from schedulers.core import keyed
from schedulers.core.abilities import NeedsEstimates
from schedulers.core.policy import ClusterView, policies
from schedulers.learned.dispatch import Dispatch
from schedulers.learned.graph import Action, Floats, Graph, Ints

Weights = Mapping[str, Floats]
#: Scales of its features (env_wrapper.py).
_TASKS: Final = 200
_WORK_MS: Final = 1e5
_SLOPE: Final = 0.2


def read(path: Path) -> Weights:
    """The arrays of a PyTorch file by name; nothing in it is executed. Raises InvalidInput for any other file."""
    try:
        with zipfile.ZipFile(path) as archive:
            top = archive.namelist()[0].partition("/")[0]
            reader = _Arrays(io.BytesIO(archive.read(f"{top}/data.pkl")))
            reader.stored = lambda key: archive.read(f"{top}/data/{key}")
            found = reader.load()
    except (OSError, zipfile.BadZipFile, KeyError, IndexError, pickle.UnpicklingError, ValueError) as error:
        raise InvalidInput([Issue(str(path), f"no weights of spark-sched-sim: {error}")]) from None
    return {str(name): array for name, array in found.items()}


class _Arrays(pickle.Unpickler):
    """Knows ordered dicts and contiguous tensors of 32-bit floats, and calls nothing else."""

    stored: Any

    def find_class(self, module: str, name: str) -> Any:
        known = {
            "collections.OrderedDict": OrderedDict,
            "torch._utils._rebuild_tensor_v2": _tensor,
            "torch.FloatStorage": "FloatStorage",
        }
        if f"{module}.{name}" not in known:
            raise pickle.UnpicklingError(f"{module}.{name} has no place in it")
        return known[f"{module}.{name}"]

    def persistent_load(self, pid: Any) -> Floats:
        _, kind, key, _, size = pid
        if kind != "FloatStorage":
            raise pickle.UnpicklingError(f"{kind} has no place in it")
        return np.frombuffer(self.stored(key), dtype="<f4", count=size)


def _tensor(storage: Floats, offset: int, shape: tuple[int, ...], stride: tuple[int, ...], *_: Any) -> Floats:
    count = int(np.prod(shape))
    array: Floats = storage[offset : offset + count].reshape(shape)
    if tuple(each // array.itemsize for each in array.strides) != tuple(stride):
        raise pickle.UnpicklingError("a tensor that is not contiguous")
    return array


@policies.register("spark_sched_sim", source="ArchieGertsman/spark-sched-sim, its released model", worlds=("emulator",))
class SparkSchedSim(Dispatch, NeedsEstimates):
    """The released agent of spark-sched-sim; it draws a stage and a number of executors more, as it does there."""

    class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
        """Settings."""

        weights: Annotated[str, msgspec.Meta(description="path of its model.pt")] = "model.pt"

    def __init__(self, params: msgspec.Struct, *, seed: int = 0) -> None:
        super().__init__(params, seed=seed)
        assert isinstance(params, self.Params)
        self._weights = read(Path(params.weights))
        self._round: tuple[int, str, int] = (-1, "", 0)  # when, whose executors, how many of them are left
        self._chosen: set[tuple[str, int]] = set()  # in this round

    def choose(self, graph: Graph, view: ClusterView) -> Action:
        """See Dispatch.choose."""
        seen = features(graph, view, self._incoming())
        nodes, jobs, whole = encoded(self._weights, graph, seen)
        places = [(index, row) for index, job in enumerate(graph.jobs) for row in range(len(job.nodes))]
        valid = self._valid(graph, places, view.now)
        around = np.broadcast_to(whole, (len(valid), len(whole)))
        of_job = np.array([places[row][0] for row in valid])
        scores = mlp(
            self._weights,
            "stage_policy_network.mlp_score",
            np.hstack([seen[valid], nodes[valid], jobs[of_job], around]),
            np.tanh,
        )
        chosen = valid[drawn(scores, keyed.uniform(view.seed, "spark_sched_sim", "stage", self.question_count))]
        index, row = places[chosen]
        more = np.arange(max(1, round(float(seen[chosen, 0]) * graph.executors)), dtype=np.float32)[:, None]
        known = np.concatenate([seen[chosen, :3], jobs[index], whole])
        inputs = np.hstack([np.broadcast_to(known, (len(more), len(known))), more / graph.executors])
        scores = mlp(self._weights, "exec_policy_network.mlp_score", inputs, np.tanh)
        count = drawn(scores, keyed.uniform(view.seed, "spark_sched_sim", "count", self.question_count))
        self._chosen.add((graph.jobs[index].name, int(graph.jobs[index].stages[row])))
        return Action(index, row, graph.jobs[index].least + count)

    def _incoming(self) -> Counter[str]:
        """By job, executors that others have promised it: there it has them at once, and the others until they go."""
        found: Counter[str] = Counter()
        for source, given in self.promises.by_source.items():
            for target, count in given.items():
                found[target[0]] += count * (source[0] != target[0])
        return found

    def _valid(self, graph: Graph, places: Sequence[tuple[int, int]], now: int) -> list[int]:
        """Rows that may be chosen; those that were not chosen in this round where there are such."""
        source = next((job.name for job in graph.jobs if job.features[1] > 0), "")
        left = round(float(graph.jobs[0].features[2]) * 20)
        if self._round[:2] != (now, source) or left >= self._round[2]:
            self._chosen.clear()
        self._round = now, source, left
        valid = [i for i, (index, row) in enumerate(places) if graph.jobs[index].valid[row]]
        stages = [(graph.jobs[places[i][0]].name, int(graph.jobs[places[i][0]].stages[places[i][1]])) for i in valid]
        fresh = [i for i, stage in zip(valid, stages, strict=True) if stage not in self._chosen]
        return fresh or valid


def drawn(scores: Floats, uniform: float) -> int:
    """An index, each as likely as its score says (softmax)."""
    odds = np.exp(scores.ravel().astype(float) - scores.max())
    return min(len(odds) - 1, int(np.searchsorted(np.cumsum(odds) / odds.sum(), uniform, side="right")))


def features(graph: Graph, view: ClusterView, incoming: Mapping[str, int]) -> Floats:
    """[stages, 5]: executors for the job, is it the source, those it has, tasks to start, their work."""
    blocks = []
    for job in graph.jobs:
        held, free = view.jobs[job.name].executors + incoming.get(job.name, 0), round(float(job.features[2]) * 20)
        owns = job.features[1] > 0
        room = free if owns else min(max(0, graph.executors - held), free)
        block = np.empty((len(job.nodes), 5), np.float32)
        block[:, :3] = room / graph.executors, 1 if owns else -1, held / graph.executors
        tasks = np.array([view.jobs[job.name].stages[stage].waiting for stage in job.stages])
        block[:, 3], block[:, 4] = tasks / _TASKS, tasks * job.nodes[:, 2] * 1e4 / _WORK_MS
        blocks.append(block)
    return np.concatenate(blocks)


def encoded(weights: Weights, graph: Graph, seen: Floats) -> tuple[Floats, Floats, Floats]:
    """Embeddings of stages, of jobs, and of the whole."""
    counts = np.array([len(job.nodes) for job in graph.jobs])
    starts = np.cumsum(counts) - counts
    edges = np.concatenate([job.edges + start for job, start in zip(graph.jobs, starts, strict=True)])
    prepared = mlp(weights, "encoder.node_encoder.mlp_prep", seen)
    nodes = _messages(weights, prepared, edges) if len(edges) else prepared
    of_stages = mlp(weights, "encoder.dag_encoder.mlp", np.hstack([seen, nodes]))
    jobs: Floats = np.add.reduceat(of_stages, starts)
    whole: Floats = mlp(weights, "encoder.global_encoder.mlp", jobs).sum(axis=0)
    return nodes, jobs, whole


def _messages(weights: Weights, prepared: Floats, edges: Ints) -> Floats:
    """From the leaves to the roots, one generation of parents at a time."""
    depths = _depths(edges, len(prepared))
    nodes = np.zeros_like(prepared)
    leaves = np.ones(len(prepared), bool)
    leaves[edges[:, 0]] = False
    nodes[leaves] = mlp(weights, "encoder.node_encoder.mlp_update", prepared[leaves])
    for depth in range(int(depths.max()) - 1, -1, -1):
        here = depths == depth
        here[edges[here[edges[:, 0]], 1]] = True  # the generation and all children of it: edges among these count too
        among = edges[here[edges[:, 0]] & here[edges[:, 1]]]
        sent = np.zeros_like(nodes)
        children, parents = np.unique(among[:, 1]), np.unique(among[:, 0])
        sent[children] = mlp(weights, "encoder.node_encoder.mlp_msg", nodes[children])
        heard = np.zeros_like(nodes)
        np.add.at(heard, among[:, 0], sent[among[:, 1]])
        nodes[parents] = prepared[parents] + mlp(weights, "encoder.node_encoder.mlp_update", heard[parents])
    return nodes


def _depths(edges: Ints, count: int) -> Ints:
    """Edges on the longest way from a root."""
    depths = np.zeros(count, np.intp)
    while True:
        deeper = depths.copy()
        np.maximum.at(deeper, edges[:, 1], depths[edges[:, 0]] + 1)
        if np.array_equal(deeper, depths):
            return depths
        depths = deeper


def _leaky(values: Floats) -> Floats:
    bent: Floats = np.where(values > 0, values, _SLOPE * values)
    return bent


def mlp(weights: Weights, name: str, inputs: Floats, bend: Any = _leaky) -> Floats:
    """Three layers, `bend` after all but the last."""
    for layer in (0, 2, 4):
        inputs = inputs @ weights[f"{name}.{layer}.weight"].T + weights[f"{name}.{layer}.bias"]
        inputs = bend(inputs) if layer < 4 else inputs
    return inputs
