"""What a training run is made from: a YAML file, checked as scenarios are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
import numpy as np
from msgspec import Meta

from rm_emulator.issues import InvalidInput, did_you_mean
from rm_emulator.scenario.document import Document, read_documents
from rm_emulator.scenario.durations import parse_seeds
from schedulers.core.errors import nearest
from schedulers.learned.shelf import SHIPPED

#: Configurations that ship with the package.
PACKAGED: Final = Path(__file__).parent / "configs"
#: Training draws its sequences from here on; validation and test seeds stay below.
FIRST_TRAINING_SEED: Final = 1_000_000

Positive = Annotated[float, Meta(gt=0)]
Count = Annotated[int, Meta(ge=1)]
Part = Annotated[float, Meta(ge=0, le=1)]


class Block(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Keys that nobody knows are mistakes."""


class Sequences(Block, frozen=True):
    """Where arrival sequences come from.

    scenario: a scenario's file, relative to the configuration, a packaged example's name, or the document itself; its
    policies do not matter. weight: how often beside the others. limit_s: episodes end after a time drawn from an
    exponential distribution of this mean (the memoryless curriculum); null: when all jobs are done. growth: of the
    mean, per iteration. horizon_s: time after which a cost counts 1/e; null: all costs count alike.
    """

    scenario: str | dict[str, Any]
    weight: Positive = 1.0
    limit_s: Positive | None = None
    growth: Annotated[float, Meta(ge=1)] = 1.0
    horizon_s: Positive | None = None

    def limit_ms(self, draws: np.random.Generator, iteration: int = 0) -> int | None:
        """The end of an episode in an iteration, as it is drawn."""
        if self.limit_s is None:
            return None
        return 1 + int(draws.exponential(1000 * self.limit_s * self.growth ** max(0, iteration)))

    @property
    def validated_ms(self) -> int | None:
        """The end of an episode of validation."""
        return None if self.limit_s is None else round(2000 * self.limit_s)


class Cloning(Block, frozen=True):
    """The warm start: decisions of a teacher, imitated. episodes: played by it. epochs: over all of them."""

    teacher: str = "capped_sjf"
    episodes: Count = 200
    epochs: Count = 5
    learning_rate: Positive = 1e-3
    minibatch: Count = 256


class Ppo(Block, frozen=True):
    """PPO without a critic, as in spark-sched-sim. keep: the part of an episode's decisions that is learned from."""

    epochs: Count = 3
    minibatches: Count = 10
    clip: Positive = 0.2
    target_kl: Positive = 0.01
    learning_rate: Positive = 3e-4
    max_norm: Positive = 0.5
    keep: Annotated[float, Meta(gt=0, le=1)] = 0.5


class Reinforce(Block, frozen=True):
    """REINFORCE as published (Decima, section 5.3): one step of Adam per iteration, gradients summed over decisions.

    differential: costs beside those of as many live jobs as there were on average.
    """

    learning_rate: Positive = 1e-3
    keep: Annotated[float, Meta(gt=0, le=1)] = 1.0
    differential: bool = False


class Evolution(Block, frozen=True):
    """Evolution strategies (Salimans et al. 2017): pairs of opposite steps of size sigma, on the same sequences."""

    pairs: Count = 8
    sigma: Positive = 0.02
    learning_rate: Positive = 0.01


class Distillation(Block, frozen=True):
    """Decision trees from a network. teacher: the weights' name. rounds: of so many episodes, each followed by a fit.

    leaves: of each tree, at most. least: rows at a leaf (a job, a stage, a decision).
    """

    teacher: str = "decima"
    rounds: Count = 5
    episodes: Count = 24
    leaves: Annotated[int, Meta(ge=2)] = 20
    least: Count = 30


class Entropy(Block, frozen=True):
    """The weight of the entropy bonus: from first to last, linearly over so many iterations."""

    first: Annotated[float, Meta(ge=0)] = 0.04
    last: Annotated[float, Meta(ge=0)] = 0.005
    iterations: Count = 300


class Validation(Block, frozen=True):
    """Greedy episodes on seeds of their own, every so many iterations; the best weights are kept."""

    seeds: str = "5000..5019"
    every: Count = 10

    @property
    def numbers(self) -> list[int]:
        """The seeds."""
        return parse_seeds(self.seeds)


class Config(Block, frozen=True):
    """A training run: each iteration `rollouts` episodes of each of `sequences`, all of one under the same run times.

    critic: whether what the state explains of costs is taken off advantages: by a linear estimate made anew each time
    (Decima), by a part of the network (LACHESIS). network: Decima's, the smaller one of its released code, Decima's
    with scores for executor classes, told what the rule `priced` would do (guided), both, or LACHESIS's. start: weights
    to begin from, a file, relative to the configuration, or the name of some that ship. cloning: null for no warm
    start.
    """

    name: str
    workloads: Annotated[tuple[Sequences, ...], Meta(min_length=1)]
    method: Literal["ppo", "reinforce", "evolution", "distillation"] = "ppo"
    critic: bool = True
    network: Literal["decima", "released", "classes", "guided", "guided_classes", "lachesis"] = "decima"
    objective: Literal["mean_jct", "makespan"] = "mean_jct"
    seed: Annotated[int, Meta(ge=0)] = 1
    iterations: Annotated[int, Meta(ge=0)] = 500
    sequences: Count = 4
    rollouts: Annotated[int, Meta(ge=2)] = 4
    start: str | None = None
    cloning: Cloning | None = Cloning()
    ppo: Ppo = Ppo()
    reinforce: Reinforce = Reinforce()
    evolution: Evolution = Evolution()
    distillation: Distillation = Distillation()
    entropy: Entropy = Entropy()
    validation: Validation = Validation()

    def workload(self, draws: np.random.Generator) -> int:
        """Which of the workloads, drawn by their weights."""
        weights = np.array([each.weight for each in self.workloads])
        return int(draws.choice(len(weights), p=weights / weights.sum()))

    def score(self, costs: Sequence[float], references: Sequence[float]) -> float:
        """Costs by workload as parts of their references, averaged by the workloads' weights."""
        weights = [each.weight for each in self.workloads]
        return float(np.average(np.array(costs) / references, weights=weights))


def find(source: str) -> Path:
    """The file, or the packaged configuration of that name. Raises InvalidInput."""
    path, packaged = Path(source), PACKAGED / f"{source}.yaml"
    if path.is_file() or path.name != source:
        return path
    if packaged.is_file():
        return packaged
    names = sorted(file.stem for file in PACKAGED.glob("*.yaml"))
    hint = did_you_mean(nearest(source, names))
    message = f"{source}: no such file, nor a packaged configuration ({', '.join(names)})"
    raise InvalidInput(f"{message}, {hint}" if hint else message)


def read(path: Path) -> Config:
    """The configuration in a file; scenarios that it names become paths from here. Raises InvalidInput."""
    document = read_documents(path)[0]
    config = parse(document)
    folder = path.parent

    def placed(block: Sequences) -> Sequences:
        near = folder / block.scenario if isinstance(block.scenario, str) else None
        return msgspec.structs.replace(block, scenario=str(near)) if near is not None and near.is_file() else block

    start = config.start if config.start in (None, *SHIPPED) else str(folder / str(config.start))
    return msgspec.structs.replace(config, workloads=tuple(map(placed, config.workloads)), start=start)


def parse(document: Document) -> Config:
    """The configuration that a document holds. Raises InvalidInput with the place of the first mistake."""
    try:
        config = msgspec.convert(document.data, Config)
    except msgspec.ValidationError as error:
        message, _, where = str(error).partition(" - at `$")
        path = _keys(where.rstrip("`"))
        unknown = re.search(r"unknown field `(.*)`", message)
        if unknown is None:
            raise InvalidInput([document.issue(path, message)]) from None
        key = unknown[1]
        known = _fields(path)
        hint = did_you_mean(nearest(key, known))
        message = f"unknown key '{key}' (accepted: {', '.join(known)})"
        raise InvalidInput([document.issue((*path, key), message, hint, key=True)]) from None
    try:
        numbers = config.validation.numbers
    except ValueError as error:
        raise InvalidInput([document.issue(("validation", "seeds"), str(error))]) from None
    if numbers[-1] >= FIRST_TRAINING_SEED or numbers[0] < 0:
        message = (
            f"{config.validation.seeds}: expected seeds below {FIRST_TRAINING_SEED}, where those of training begin"
        )
        raise InvalidInput([document.issue(("validation", "seeds"), message)])
    return config


def _keys(where: str) -> tuple[str | int, ...]:
    """`.workloads[0].weight` as keys."""
    return tuple(int(number) if number else name for name, number in re.findall(r"\.(\w+)|\[(\d+)\]", where))


def _fields(path: tuple[str | int, ...]) -> list[str]:
    """The keys of the block at `path`."""
    blocks = {field.name: type(field.default) for field in msgspec.structs.fields(Config)} | {"workloads": Sequences}
    return [field.name for field in msgspec.structs.fields(blocks[str(path[0])] if path else Config)]
