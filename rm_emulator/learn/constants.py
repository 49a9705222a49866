"""The constants of `curves`, found by evolution on the fast simulator, from those of the plain rule on."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from rm_emulator.files import write_file
from rm_emulator.issues import InvalidInput, Issue
from rm_emulator.learn.cma import Search, exponential, logarithm
from rm_emulator.learn.config import Config
from rm_emulator.learn.fast_jobs import FastSetting, setting_of
from rm_emulator.learn.fast_rules import rule_of
from rm_emulator.learn.rollouts import death_named, playable, start_player
from rm_emulator.scenario.schema import Scenario
from schedulers.core import keyed
from schedulers.kit.curves import CONSTANTS, Constants
from schedulers.learned.graph import Doubles
from schedulers.planning.replan.kernel import Rule
from schedulers.planning.replan.plays import FastRun, Unsuitable, random_draws

STATE: Final = "state.json"
CURVE: Final = "curve.jsonl"
BEST: Final = "best.yaml"
#: The first mean: the plain rule, but a job lets idle executors go above its number, and 8 tasks are left.
_START: Final = CONSTANTS[False]._replace(kept=1.0, warm=8.0)
#: Of ln price, fall, growth and ln warm in the first generation.
_DEVIATIONS: Final = np.array([0.3, 0.4, 0.1, 0.1])
_CANDIDATES: Final = 8

Report = Callable[[str], None]
#: Workload, seed and run times of an episode.
Drawn = tuple[int, int, Doubles]


def smoke(config: Config) -> Config:
    """The configuration of a run of seconds, to see that everything works."""
    workload = msgspec.structs.replace(config.workloads[0], plays=2)
    validation = msgspec.structs.replace(config.validation, seeds="7001..7004")
    return msgspec.structs.replace(config, iterations=4, workloads=(workload,), validation=validation)


def constants_of(numbers: Iterable[float]) -> Constants:
    """The constants for numbers of the search."""
    price, fall, growth, warm = numbers
    return _START._replace(price=exponential(price), fall=fall, growth=growth, warm=exponential(warm))


def rounded(constants: Constants) -> Constants:
    """Two digits of each."""
    return Constants(*(float(f"{each:.2g}") for each in constants))


class Episodes:
    """The episodes of a configuration. Raises InvalidInput for scenarios that cannot be played."""

    def __init__(self, config: Config) -> None:
        self.config = config
        found = playable(config.workloads, config.profiles)
        self._scenarios = [Scenario.model_validate(each) for each in found]
        self.setting: Callable[[int, int], FastSetting] = cache(self._setting)
        """By workload and seed."""
        self.rule: Callable[[int, int], Rule] = cache(self._rule)
        """`curves` as it is, by workload and seed."""

    def _setting(self, workload: int, seed: int) -> FastSetting:
        scenario = self._scenarios[workload]
        try:
            return setting_of(scenario, seed)
        except Unsuitable as error:
            name = scenario.metadata.name
            raise InvalidInput(f"scenario {name}: not for the fast simulator, which does not play {error}") from None

    def _rule(self, workload: int, seed: int) -> Rule:
        setting = self.setting(workload, seed)
        jobs = [each.job for each in setting.workload]
        return rule_of({"kind": "curves"}, jobs, setting.told, setting.play.executors)

    def drawn(self, generation: int) -> list[Drawn]:
        """Workload, seed and run times of the episodes of a generation."""
        random, made = keyed.generator(self.config.seed, "student", generation), []
        for workload, each in enumerate(self.config.workloads):
            seeds = random.choice(each.numbers, min(each.plays, len(each.numbers)), replace=False).tolist()
            made += [(workload, seed, random_draws(self.setting(workload, seed).play.tasks, random)) for seed in seeds]
        return made

    def validation(self) -> list[Drawn]:
        """Workload, seed and the engine's run times of the episodes of validation."""
        every = [
            (workload, seed) for workload in range(len(self._scenarios)) for seed in self.config.validation.numbers
        ]
        return [(workload, seed, self.setting(workload, seed).draws) for workload, seed in every]


class Match(NamedTuple):
    """An episode that `curves` plays first with its own constants, and then with those of each player."""

    run: FastRun
    rule: Rule
    draws: Doubles
    players: Sequence[Constants]

    def jcts_s(self) -> list[float]:
        """Mean JCT of `curves`, and by player, s."""
        rules = [self.rule, *map(self._rule_of, self.players)]
        return [self.run.mean_jct_s(self.run.ends(each, self.draws)) for each in rules]

    def _rule_of(self, player: Constants) -> Rule:
        jobs = self.rule.jobs.copy()
        jobs["over"], jobs["warm"] = player.kept, player.warm
        return self.rule._replace(jobs=jobs, price=player.price, fall=player.fall, growth=player.growth)


class ConstantsState(msgspec.Struct, kw_only=True):
    """What a run goes on from."""

    config: str
    """Digest of the configuration at the start."""
    search: dict[str, Any]
    """See Search.kept."""
    best: Constants = _START
    """The constants with the least validation score, of `best_generation`."""
    best_score: float | None = None
    best_generation: int = 0
    elapsed_s: float = 0.0
    cpu_s: float = 0.0
    """Of the main process."""


class ConstantsTraining:
    """A run in a folder. jobs: processes that play. report: called with a line of progress each generation."""

    def __init__(
        self, config: Config, folder: Path, *, jobs: int = 1, resume: bool = False, report: Report = print
    ) -> None:
        self.config, self.folder, self._jobs, self._report = config, folder, jobs, report
        if not config.iterations:
            raise InvalidInput(f"{config.name}: iterations: 0: constants take a generation at least")
        self._episodes = Episodes(config)
        self._play: Callable[..., Iterable[list[float]]] = map
        digest, path = sha256(msgspec.json.encode(config)).hexdigest(), folder / STATE
        if resume:
            self.state = _kept(path)
            if self.state.config != digest:
                raise InvalidInput(
                    [Issue(str(folder), "holds a run of another configuration: name that one, or another --out")]
                )
            self.search = Search.restored(self.state.search)
        elif path.exists():
            raise InvalidInput([Issue(str(folder), "holds a training run: --resume goes on with it")])
        else:
            numbers = logarithm(_START.price), _START.fall, _START.growth, logarithm(_START.warm)
            self.search = Search.begin(np.array(numbers), 1.0, _DEVIATIONS)
            self.state = ConstantsState(config=digest, search=self.search.kept)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / CURVE).unlink(missing_ok=True)

    def run(self) -> ConstantsState:
        """To the last generation; the best constants are in the folder. Raises WorkerDied; the last state is kept."""
        with ExitStack() as opened:
            if self._jobs > 1:
                context = multiprocessing.get_context("spawn")
                pool = opened.enter_context(ProcessPoolExecutor(self._jobs, context, initializer=start_player))
                opened.enter_context(death_named())
                self._play = pool.map
            while self.search.generation < self.config.iterations:
                self._evolve()
        return self.state

    @property
    def result(self) -> str:
        """Words on the best constants: generation, score, and the tuple to write into `schedulers.kit.curves`."""
        best = f"generation {self.state.best_generation}, {self.state.best_score:.3f} of curves"
        return f"{self.folder / BEST}: {best}\nCONSTANTS in schedulers/kit/curves.py: {self.state.best}"

    def _evolve(self) -> None:
        """One generation, its validation, its row and its state."""
        began, cpu, search, config, state = time.monotonic(), time.process_time(), self.search, self.config, self.state
        candidates = search.candidates(_CANDIDATES, config.seed)
        players = [constants_of(numbers) for numbers in candidates.tolist()]
        scores = self._scores(self._jcts_s(self._episodes.drawn(search.generation), players))
        search.select(candidates, scores)
        figures: dict[str, Any] = {"generation": search.generation, "sigma": search.sigma, "scores": scores.tolist()}
        said = f"candidates {scores.min():.3f} to {scores.max():.3f} of curves"
        if search.generation % config.validation.every == 0 or search.generation == config.iterations:
            figures |= self._validate()
            costs = ", ".join(f"{cost:.1f} s" for cost in figures["validation_s"])
            said += f"; validation JCT {costs}, {figures['validation']:.3f} (best {state.best_score:.3f})"
        state.search = search.kept
        state.elapsed_s += time.monotonic() - began
        state.cpu_s += time.process_time() - cpu
        self._write(figures)
        if left := config.iterations - search.generation:
            said += f", {state.elapsed_s / search.generation * left / 60:.0f} min left"
        self._report(f"generation {search.generation}/{config.iterations}: {said}")

    def _validate(self) -> dict[str, Any]:
        """Play the validation seeds with the mean, rounded; keep the constants if they are the best so far."""
        told, state = rounded(constants_of(self.search.mean.tolist())), self.state
        jcts = self._jcts_s(self._episodes.validation(), [told])
        score = float(self._scores(jcts)[0])
        if state.best_score is None or score < state.best_score:
            state.best, state.best_score, state.best_generation = told, score, self.search.generation
        return {"constants": told, "validation": score, "validation_s": [float(rows.mean(axis=0)[1]) for rows in jcts]}

    def _jcts_s(self, episodes: Sequence[Drawn], players: Sequence[Constants]) -> list[Doubles]:
        """By workload [episodes, 1 + players], see Match.jcts_s."""
        known, rule = self._episodes.setting, self._episodes.rule
        matches = [Match(known(each, seed).play, rule(each, seed), draws, players) for each, seed, draws in episodes]
        rows = list(self._play(Match.jcts_s, matches))
        workloads = [
            [row for row, given in zip(rows, episodes, strict=True) if given[0] == each]
            for each in range(len(self.config.workloads))
        ]
        return [np.array(each) for each in workloads]

    def _scores(self, jcts: Sequence[Doubles]) -> Doubles:
        """By player, 1: as good as `curves`; averaged by the workloads' weights."""
        ratios = [(rows[:, 1:] / rows[:, :1]).mean(axis=0) for rows in jcts]
        return np.average(ratios, axis=0, weights=[each.weight for each in self.config.workloads])

    def _write(self, figures: dict[str, Any]) -> None:
        """The curve, after rows of earlier generations only; the best constants; last the state."""
        path, state = self.folder / CURVE, self.state
        rows = path.read_text().splitlines() if path.exists() else []
        rows = [row for row in rows if msgspec.json.decode(row)["generation"] < figures["generation"]]
        write_file(path, "\n".join([*rows, msgspec.json.encode(figures).decode()]) + "\n")
        about = f"# Constants of curves: generation {state.best_generation} of rm-emulator train {self.config.name}"
        lines = [f"{name}: {value:g}" for name, value in state.best._asdict().items()]
        write_file(self.folder / BEST, "\n".join([about, *lines]) + "\n")
        write_file(self.folder / STATE, msgspec.json.encode(state), sync=True)


def _kept(path: Path) -> ConstantsState:
    """The last state. Raises InvalidInput for a missing or damaged file."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=ConstantsState)
    except FileNotFoundError:
        message = f"holds no training run to go on with ({STATE} is missing)"
        raise InvalidInput([Issue(str(path.parent), message)]) from None
    except (OSError, msgspec.MsgspecError) as error:
        raise InvalidInput([Issue(str(path), f"no state that can be gone on with: {error}")]) from None
