"""The training loop: episodes by processes, a step, at times a validation; a checkpoint after each iteration."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import torch
from torch.utils.tensorboard import SummaryWriter

from rm_emulator.files import write_file
from rm_emulator.issues import InvalidInput, Issue
from rm_emulator.learn import checkpoints, evolution, ppo, reinforce
from rm_emulator.learn.agents import Decision, agent_of
from rm_emulator.learn.checkpoints import State
from rm_emulator.learn.cloning import clone
from rm_emulator.learn.config import FIRST_TRAINING_SEED, Config
from rm_emulator.learn.remote import RemoteRollouts
from rm_emulator.learn.rollouts import Rollout, RolloutPool, RolloutTask, playable
from rm_emulator.learn.samples import (
    SequenceRollouts,
    critic_inputs_of,
    critic_targets_of,
    mean,
    normalised_advantages,
    torch_network,
)
from schedulers.core import keyed
from schedulers.learned import model_store
from schedulers.learned.graph import Graph
from schedulers.learned.ranges import Ranges, merged, noted, ranges_of
from schedulers.learned.weights import Weights, initial, pack, unpack

if TYPE_CHECKING:
    from rm_emulator.experiments.dask_engine import DaskEngine

CURVE: Final = "curve.jsonl"
BEST: Final = "best.safetensors"
#: Part of the averaged weights kept at each iteration. The average is validated, because weights themselves wander.
_STAYS: Final = 0.9
#: Part of past live jobs per time kept per iteration, for differential rewards.
_FADES: Final = 0.95

Report = Callable[[str], None]


def smoke(config: Config) -> Config:
    """The configuration of a run of two minutes, to see that everything works."""
    return msgspec.structs.replace(
        config,
        iterations=4,
        workloads=config.workloads[:1],
        sequences=1,
        cloning=config.cloning and msgspec.structs.replace(config.cloning, episodes=16, epochs=16, minibatch=64),
        validation=msgspec.structs.replace(config.validation, seeds="5000..5003", every=2),
    )


def mixed(old: Weights, new: Weights, part: float) -> Weights:
    """`part` of the old weights plus the rest of the new weights."""
    kept = np.float32(part)
    arrays = {name: kept * array + (1 - kept) * new.arrays[name] for name, array in old.arrays.items()}
    return Weights(new.architecture, arrays, new.about)


class Training:
    """One run in a folder.

    jobs: processes that play. engine: workers of a cluster, which play instead. report: called with lines of progress.
    """

    def __init__(
        self,
        config: Config,
        folder: Path,
        *,
        jobs: int = 1,
        engine: DaskEngine | None = None,
        resume: bool = False,
        report: Report = print,
    ) -> None:
        self.config, self.folder, self._report = config, folder, report
        self.agent = agent = agent_of(config.network)
        if config.cloning is not None and config.cloning.teacher not in agent.rules:
            known = ", ".join(agent.rules)
            raise InvalidInput(f"cloning.teacher: {agent.kind} cannot learn from '{config.cloning.teacher}' ({known})")
        digest = sha256(msgspec.json.encode(config)).hexdigest()
        # Unusable scenarios and workers of another program are refused before anything is written.
        scenarios, remote = playable(config.workloads, config.profiles), None
        if engine is not None:
            remote = RemoteRollouts(engine, scenarios, agent.kind, name=config.name, note=report)
        if resume:
            self.state = checkpoints.load(folder)
            if self.state.config != digest:
                raise InvalidInput(
                    [Issue(str(folder), "holds a run of another configuration: name that one, or another --out")]
                )
        else:
            if (folder / checkpoints.NAME).exists():
                raise InvalidInput([Issue(str(folder), "holds a training run: --resume goes on with it")])
            try:
                str(folder).encode()
            except UnicodeEncodeError:
                raise InvalidInput([Issue(str(folder), "TensorBoard needs a name in UTF-8")]) from None
            folder.mkdir(parents=True, exist_ok=True)
            write_file(folder / "config.json", msgspec.json.format(msgspec.json.encode(config), indent=1) + b"\n")
            self.state = State(config=digest)
        torch.set_num_threads(1)
        self._pool = remote or RolloutPool(scenarios, jobs, agent.kind)
        self._writer = SummaryWriter(str(folder / "tensorboard"), purge_step=self.state.iteration)
        self._begun = time.monotonic()
        self._first = self.state.iteration
        self._largest: dict[str, int] = {}
        self._ranges: Ranges = {}

    # -- the run --------------------------------------------------------------------------------

    def run(self) -> State:
        """To the last iteration. Raises Diverged, WorkerDied, CallFailed and OSError; the last checkpoint is kept."""
        try:
            if not self.state.weights:
                self._start()
            weights = unpack(self.state.weights, "the checkpoint")
            self._network, self._largest, self._ranges = torch_network(weights), dict(weights.most), weights.ranges
            self._optimiser = self._restored_optimiser()
            pending = self._begin_rollouts(self.state.iteration, self.state.behind)
            while self.state.iteration < self.config.iterations:
                pending = self._iterate(pending)
        finally:
            self._pool.close()
            self._writer.close()
        return self.state

    @property
    def result(self) -> str:
        """The best weights and how good they are."""
        best = f"iteration {self.state.best_iteration}, {self.state.best_score:.3f} of {self.agent.references[0]}"
        return f"{self.folder / BEST}: {best}"

    def _iterate(self, pending: Callable[[], list[Rollout]]) -> Callable[[], list[Rollout]]:
        """One iteration; the next iteration's episodes are played while the network learns from the present ones."""
        state, config = self.state, self.config
        begun = time.monotonic()
        episodes = pending()
        played = time.monotonic()
        iteration, following = state.iteration, pending
        ahead = config.method != "evolution"
        if ahead:
            state.behind = state.weights
            following = self._begin_rollouts(iteration + 1, state.behind)
        figures = self._learn(episodes, iteration)
        weights = self._network.export(self._about())
        state.weights = pack(weights)
        state.average = pack(mixed(unpack(state.average, "the checkpoint"), weights, _STAYS))
        if not ahead:
            state.behind = state.weights
            following = self._begin_rollouts(iteration + 1, state.behind)
        figures |= {
            "charts/jct_s": mean(episode.outcome.jct_s for episode in episodes),
            "charts/makespan_s": mean(episode.outcome.end / 1000 for episode in episodes),
            "charts/asked": mean(episode.decision_count for episode in episodes),
            "time/rollouts_s": played - begun,
            "time/learn_s": time.monotonic() - played,
        }
        state.iteration += 1
        if state.iteration % config.validation.every == 0 or state.iteration == config.iterations:
            figures |= self._validate()
        self._write_figures(figures)
        self._save_checkpoint()
        return following

    def _save_checkpoint(self) -> None:
        now = time.monotonic()
        self.state.elapsed_s += now - self._begun
        self._begun = now
        self.state.moments, self.state.steps = self._moments()
        checkpoints.save(self.state, self.folder)

    # -- before the first iteration -------------------------------------------------------------

    def _start(self) -> None:
        """References, first weights, the warm start."""
        config, state = self.config, self.state
        state.references = tuple(tuple(self._validation(player)) for player in self.agent.references)
        weights = initial(self.agent.sizes[config.network], keyed.generator(config.seed, "weights"))
        if config.start is not None:
            ships = config.start in model_store.SHIPPED
            name, kind = config.start, self.agent.kind
            weights = model_store.weights_of(name, kind) if ships else unpack(Path(name).read_bytes(), name)
            if weights.architecture.kind != kind:
                raise InvalidInput(f"{name}: a network of '{weights.architecture.kind}', not of '{kind}'")
        self._network = torch_network(weights)
        if config.cloning is not None:
            self._clone()
        state.weights = state.behind = state.average = pack(self._network.export(self._about()))
        self._optimiser = self._new_optimiser()
        (self.folder / CURVE).unlink(missing_ok=True)
        self._write_figures(self._validate())
        self._save_checkpoint()

    def _clone(self) -> None:
        settings = self.config.cloning
        assert settings is not None
        tasks = [
            msgspec.structs.replace(task, policy=settings.teacher, keep_fraction=1.0)
            for number in range(settings.episodes)
            for task in self._sequence(-1 - number // self.config.sequences, number % self.config.sequences, b"")[:1]
        ]
        episodes = self._pool.play(tasks)
        decisions = [decision for episode in episodes for decision in episode.decisions]
        self._report(f"cloning {settings.teacher}: {len(decisions):,} decisions of {len(tasks)} episodes")
        announce = lambda epoch, loss: self._report(f"cloning: epoch {epoch + 1}, loss {loss:.3f}")  # noqa: E731
        self._note_sizes(decisions)
        generator, expected = keyed.generator(self.config.seed, "cloning"), critic_targets_of(self._network, episodes)
        clone(self._network, decisions, settings, generator, announce, expected)

    # -- an iteration ---------------------------------------------------------------------------

    def _begin_rollouts(self, iteration: int, policy: bytes) -> Callable[[], list[Rollout]]:
        if iteration >= self.config.iterations:
            return list
        return self._pool.begin(self._tasks(iteration, policy))

    def _tasks(self, iteration: int, policy: bytes) -> list[RolloutTask]:
        """The episodes of all sequences, one after the other."""
        sequences = [self._sequence(iteration, number, policy) for number in range(self.config.sequences)]
        if self.config.method == "evolution":
            settings, weights = self.config.evolution, unpack(policy, "the checkpoint")
            steps = evolution.steps(weights, settings.pairs, self.config.seed, iteration)
            players = [pack(evolution.moved(weights, s, by)) for by in (settings.sigma, -settings.sigma) for s in steps]
            return [
                msgspec.structs.replace(tasks[0], policy=p, greedy=True, keep_fraction=0.0)
                for p in players
                for tasks in sequences
            ]
        return [task for tasks in sequences for task in tasks]

    def _sequence(self, iteration: int, number: int, policy: bytes) -> list[RolloutTask]:
        """The rollouts of one sequence of an iteration."""
        config = self.config
        draws = keyed.generator(config.seed, "sequence", iteration, number)
        workload = config.workload(draws)
        limit = config.workloads[workload].limit_ms(draws, iteration)
        seed = FIRST_TRAINING_SEED + (iteration + 1_000_000) * config.sequences + number
        keep = getattr(getattr(config, config.method), "keep", 0.0)
        names = [keyed.digest(config.seed, "rollout", iteration, number, each) for each in range(config.rollouts)]
        return [RolloutTask(workload, seed, name, policy, limit_ms=limit, keep_fraction=keep) for name in names]

    def _learn(self, episodes: list[Rollout], iteration: int) -> dict[str, float]:
        config = self.config
        if config.method == "evolution":
            return self._evolve(episodes, iteration)
        generator = keyed.generator(config.seed, "minibatches", iteration)
        decisions, advantages = self._with_advantages(episodes, iteration)
        if not decisions:
            return {}
        expected = critic_targets_of(self._network, episodes)
        entropy = config.entropy
        done = min(1.0, iteration / entropy.iterations)
        bonus = entropy.first + (entropy.last - entropy.first) * done
        if config.method == "ppo":
            how = (config.ppo, bonus, generator, expected)
            return ppo.improve(self._network, self._optimiser, decisions, advantages, *how)
        return reinforce.improve(self._network, self._optimiser, decisions, advantages, bonus, generator, expected)

    def _with_advantages(self, episodes: list[Rollout], iteration: int) -> tuple[list[Decision[Any, Any]], np.ndarray]:
        """All kept decisions, and their advantages."""
        config, state = self.config, self.state
        rate = state.area_s / state.time_s if config.reinforce.differential and state.time_s else 0.0
        groups = []
        for number in range(config.sequences):
            workload = config.workloads[self._sequence(iteration, number, b"")[0].workload]
            group = episodes[number * config.rollouts : (number + 1) * config.rollouts]
            groups.append(SequenceRollouts(group, workload.horizon_s, config.objective == "makespan"))
        advantages = normalised_advantages(
            groups, rate, critic=critic_inputs_of(self._network) if config.critic else None
        )
        area = sum(float((e.outcome.ends - e.outcome.arrivals).sum()) for e in episodes) / 1000
        state.area_s = _FADES * state.area_s + area
        state.time_s = _FADES * state.time_s + sum(e.outcome.end for e in episodes) / 1000
        decisions = [decision for episode in episodes for decision in episode.decisions]
        self._note_sizes(decisions)
        return decisions, advantages

    def _evolve(self, episodes: list[Rollout], iteration: int) -> dict[str, float]:
        settings = self.config.evolution
        costs = np.array([self._cost(episode) for episode in episodes]).reshape(2, settings.pairs, -1)
        weights = self._network.export()
        steps = evolution.steps(weights, settings.pairs, self.config.seed, iteration)
        gradient = evolution.gradient(steps, costs[0], costs[1], settings.sigma)
        for name, parameter in self._network.named().items():
            parameter.grad = torch.from_numpy(gradient[name].T.copy())
        self._optimiser.step()
        return {"losses/spread_s": float(np.abs(costs[0] - costs[1]).mean())}

    # -- what became of it ----------------------------------------------------------------------

    def _validation(self, policy: bytes | str) -> list[float]:
        """Per workload the mean over the validation seeds of greedy JCTs, s."""
        seeds, workloads = self.config.validation.numbers, self.config.workloads
        tasks = [
            RolloutTask(index, seed, seed, policy, greedy=True, limit_ms=each.validated_ms)
            for index, each in enumerate(workloads)
            for seed in seeds
        ]
        jcts = [self._cost(episode) for episode in self._pool.play(tasks)]
        return [mean(jcts[index * len(seeds) : (index + 1) * len(seeds)]) for index in range(len(workloads))]

    def _cost(self, episode: Rollout) -> float:
        return episode.outcome.end / 1000 if self.config.objective == "makespan" else episode.outcome.jct_s

    def _validate(self) -> dict[str, float]:
        """Play the validation seeds; keep the weights if they are the best so far."""
        state = self.state
        found = self._validation(state.average)
        score = self.config.score(found, state.references[0])
        if score < state.best_score:
            state.best, state.best_score, state.best_iteration = state.average, score, state.iteration
            write_file(self.folder / BEST, state.best)
        self._report(self._progress_line(found, score))
        return {"validation/score": score} | {f"validation/{index}_s": jct for index, jct in enumerate(found)}

    def _progress_line(self, found: Sequence[float], score: float) -> str:
        done = self.state.iteration - self._first
        left = self.config.iterations - self.state.iteration
        elapsed = self.state.elapsed_s + time.monotonic() - self._begun
        ahead = f", {elapsed / self.state.iteration * left / 60:.0f} min left" if done else ""
        costs = ", ".join(f"{cost:.1f} s" for cost in found)
        what = "makespan" if self.config.objective == "makespan" else "JCT"
        return (
            f"iteration {self.state.iteration}/{self.config.iterations}: validation {what} {costs}, "
            f"{score:.3f} of {self.agent.references[0]} (best {self.state.best_score:.3f}){ahead}"
        )

    def _write_figures(self, figures: Mapping[str, float]) -> None:
        """Write a row of the curve, after rows of earlier iterations only, and TensorBoard's scalars."""
        path, iteration = self.folder / CURVE, self.state.iteration
        rows = path.read_text().splitlines() if path.exists() else []
        rows = [row for row in rows if msgspec.json.decode(row)["iteration"] < iteration]
        elapsed = self.state.elapsed_s + time.monotonic() - self._begun
        row: dict[str, Any] = {"iteration": iteration, "elapsed_s": round(elapsed, 1), **figures}
        write_file(path, "\n".join([*rows, msgspec.json.encode(row).decode()]) + "\n")
        for name, value in figures.items():
            self._writer.add_scalar(name, value, iteration)

    def _about(self) -> dict[str, str]:
        about = {"config": self.config.name, "method": self.config.method, "iteration": str(self.state.iteration)}
        if self._ranges:
            about |= noted(self._ranges, "proportional" if self.config.objective == "makespan" else "priced")
        return about | {f"most {what}": str(count) for what, count in self._largest.items()}

    def _note_sizes(self, decisions: Sequence[Decision[Any, Any]]) -> None:
        """Remember the largest observations in training, and their ranges."""
        graphs = [decision.graph for decision in decisions if isinstance(decision.graph, Graph)]
        self._ranges = merged([self._ranges, *map(ranges_of, graphs)])
        for decision in decisions:
            for what, count in decision.graph.amounts().items():
                self._largest[what] = max(count, self._largest.get(what, 0))

    # -- the optimiser --------------------------------------------------------------------------

    def _new_optimiser(self) -> torch.optim.Adam:
        return self._network.adam(getattr(self.config, self.config.method).learning_rate)

    def _restored_optimiser(self) -> torch.optim.Adam:
        """The optimiser at the time of the checkpoint."""
        optimiser, moments = self._new_optimiser(), self.state.moments
        for name, parameter in self._network.named().items():
            if f"{name}/exp_avg" in moments:
                optimiser.state[parameter] = {
                    "step": torch.tensor(float(self.state.steps)),
                    **{kind: torch.from_numpy(moments[f"{name}/{kind}"].copy()) for kind in ("exp_avg", "exp_avg_sq")},
                }
        return optimiser

    def _moments(self) -> tuple[dict[str, np.ndarray], int]:
        moments: dict[str, np.ndarray] = {}
        steps = 0
        for name, parameter in self._network.named().items():
            if held := self._optimiser.state.get(parameter):
                moments |= {f"{name}/{kind}": held[kind].numpy().copy() for kind in ("exp_avg", "exp_avg_sq")}
                steps = int(held["step"].item())
        return moments, steps
