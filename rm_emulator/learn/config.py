"""The configuration of a training run: a YAML file, checked as scenarios are."""

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
from schedulers.learned.model_store import SHIPPED

#: Configurations that ship with the package.
PACKAGED: Final = Path(__file__).parent / "configs"
#: Training draws its sequences from here on; validation and test seeds stay below.
FIRST_TRAINING_SEED: Final = 1_000_000

Positive = Annotated[float, Meta(gt=0)]
Count = Annotated[int, Meta(ge=1)]
Part = Annotated[float, Meta(ge=0, le=1)]


class ConfigBlock(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A block of the file; unknown keys are mistakes."""


class Sequences(ConfigBlock, frozen=True):
    """A source of arrival sequences."""

    scenario: str | dict[str, Any]
    """File, relative to the configuration, name of a packaged example, or document; its policies do not matter."""
    weight: Positive = 1.0
    """Frequency compared with other sources."""
    limit_s: Positive | None = None
    """Mean time limit of an episode, drawn from an exponential distribution (the memoryless curriculum); null: none."""
    growth: Annotated[float, Meta(ge=1)] = 1.0
    """Factor of the mean per iteration."""
    horizon_s: Positive | None = None
    """Time after which a cost counts 1/e; null: all costs count alike."""
    seeds: str = "1000000..1000095"
    """Seeds of episodes from which each generation draws (cma)."""
    plays: Count = 8
    """Episodes of a generation (cma)."""

    @property
    def numbers(self) -> list[int]:
        """The seeds."""
        return parse_seeds(self.seeds)

    def limit_ms(self, draws: np.random.Generator, iteration: int = 0) -> int | None:
        """The end of an episode in an iteration, drawn."""
        if self.limit_s is None:
            return None
        return 1 + int(draws.exponential(1000 * self.limit_s * self.growth ** max(0, iteration)))

    @property
    def validated_ms(self) -> int | None:
        """The end of an episode of validation."""
        return None if self.limit_s is None else round(2000 * self.limit_s)


class Cloning(ConfigBlock, frozen=True):
    """The warm start: imitation of a teacher."""

    teacher: str = "capped_sjf"
    """Name of a rule."""
    episodes: Count = 200
    """Episodes played by the teacher."""
    epochs: Count = 5
    """Passes over all decisions."""
    learning_rate: Positive = 1e-3
    minibatch: Count = 256


class Ppo(ConfigBlock, frozen=True):
    """PPO without a critic, as in spark-sched-sim."""

    epochs: Count = 3
    minibatches: Count = 10
    clip: Positive = 0.2
    target_kl: Positive = 0.01
    learning_rate: Positive = 3e-4
    max_norm: Positive = 0.5
    keep: Annotated[float, Meta(gt=0, le=1)] = 0.5
    """Part of an episode's decisions used for learning."""


class Reinforce(ConfigBlock, frozen=True):
    """REINFORCE as published (Decima, section 5.3): one step of Adam per iteration, gradients summed over decisions."""

    learning_rate: Positive = 1e-3
    keep: Annotated[float, Meta(gt=0, le=1)] = 1.0
    differential: bool = False
    """Whether to subtract the cost of the average number of live jobs."""


class Evolution(ConfigBlock, frozen=True):
    """Evolution strategies (Salimans et al. 2017): pairs of opposite steps of size sigma, on the same sequences."""

    pairs: Count = 8
    sigma: Positive = 0.02
    learning_rate: Positive = 0.01


class Entropy(ConfigBlock, frozen=True):
    """The weight of the entropy bonus: from first to last, linearly over `iterations`."""

    first: Annotated[float, Meta(ge=0)] = 0.04
    last: Annotated[float, Meta(ge=0)] = 0.005
    iterations: Count = 300


class Validation(ConfigBlock, frozen=True):
    """Greedy episodes on separate seeds, once in `every` iterations; the best weights are kept."""

    seeds: str = "5000..5019"
    every: Count = 10

    @property
    def numbers(self) -> list[int]:
        """The seeds."""
        return parse_seeds(self.seeds)


class Config(ConfigBlock, frozen=True):
    """A training run: each iteration plays each of `sequences` sequences `rollouts` times, under equal run times."""

    name: str
    workloads: Annotated[tuple[Sequences, ...], Meta(min_length=1)]
    profiles: str | None = None
    """Path of the full measurements, as in workloads of kind tpch; null: those of the scenarios."""
    method: Literal["ppo", "reinforce", "evolution", "cma"] = "ppo"
    critic: bool = True
    """Whether advantages lose the part explained by the state, by a linear estimate of each iteration (Decima) or by a
    part of the network (LACHESIS)."""
    network: Literal["decima", "released", "classes", "guided", "guided_classes", "lachesis"] = "decima"
    """Decima's, the smaller one of its released code, with scores for executor classes, with the answer of the rule
    `priced` as input (guided), with both, or LACHESIS's."""
    objective: Literal["mean_jct", "makespan"] = "mean_jct"
    seed: Annotated[int, Meta(ge=0)] = 1
    iterations: Annotated[int, Meta(ge=0)] = 500
    sequences: Count = 4
    rollouts: Annotated[int, Meta(ge=2)] = 4
    start: str | None = None
    """Weights at the start: a file, relative to the configuration, or the name of weights in the package."""
    cloning: Cloning | None = Cloning()
    """The warm start; null: none."""
    ppo: Ppo = Ppo()
    reinforce: Reinforce = Reinforce()
    evolution: Evolution = Evolution()
    entropy: Entropy = Entropy()
    validation: Validation = Validation()

    def workload(self, draws: np.random.Generator) -> int:
        """Index of a workload, drawn by weight."""
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


def read(path: Path, profiles: Path | None = None) -> Config:
    """The configuration in a file; names of scenarios become paths from here. Raises InvalidInput.

    profiles: in place of those of the file.
    """
    document = read_documents(path)[0]
    config = parse(document)
    folder = path.parent

    def placed(block: Sequences) -> Sequences:
        near = folder / block.scenario if isinstance(block.scenario, str) else None
        return msgspec.structs.replace(block, scenario=str(near)) if near is not None and near.is_file() else block

    start = config.start if config.start in (None, *SHIPPED) else str(folder / str(config.start))
    full = profiles if profiles is not None else config.profiles and folder / config.profiles
    workloads = tuple(map(placed, config.workloads))
    return msgspec.structs.replace(config, workloads=workloads, start=start, profiles=full and str(full.resolve()))


def parse(document: Document) -> Config:
    """The configuration in a document. Raises InvalidInput with the place of the first mistake."""
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
    for index, each in enumerate(config.workloads):
        try:
            parse_seeds(each.seeds)
        except ValueError as error:
            raise InvalidInput([document.issue(("workloads", index, "seeds"), str(error))]) from None
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
