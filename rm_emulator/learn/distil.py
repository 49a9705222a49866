"""Distillation: decision trees learn the choices of a network, in the states to which the trees lead (DAgger).

Hu et al. (arXiv 2405.19131) distil Decima from its traces; Ross et al. (AISTATS 2011) ask the teacher about the states
of the pupil's episodes. No torch.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from rm_emulator.files import write_file
from rm_emulator.issues import InvalidInput, Issue
from rm_emulator.learn.agents import Ask, is_forced
from rm_emulator.learn.cart import grow
from rm_emulator.learn.config import FIRST_TRAINING_SEED, Config
from rm_emulator.learn.rollouts import RolloutWorker, playable
from schedulers.core import keyed
from schedulers.core.policy import ClusterView
from schedulers.learned import model_store, tree_features
from schedulers.learned.graph import Action, Doubles, Graph
from schedulers.learned.limits import STEPS
from schedulers.learned.network import Network, Scores, log_probabilities
from schedulers.learned.ranges import Ranges, merged, ranges_of, rounded
from schedulers.learned.tree import Tree, TreeDecider, Trees, write

Report = Callable[[str], None]
#: File of the best trees on the validation seeds.
BEST: Final = "best.yaml"
#: Limits distinguished by a tree; the last limit is all executors.
LIMITS: Final = (*STEPS[:-1], math.inf)


def smoke(config: Config) -> Config:
    """The configuration of a run of seconds, to see that everything works."""
    return msgspec.structs.replace(
        config,
        workloads=config.workloads[:1],
        distillation=msgspec.structs.replace(config.distillation, rounds=2, episodes=3),
        validation=msgspec.structs.replace(config.validation, seeds="5000..5001"),
    )


class TeacherDataset:
    """The teacher's probabilities of each job, of each stage of the chosen job, and of each limit."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Doubles, Doubles]] = []
        self.stages: list[tuple[Doubles, Doubles]] = []
        self.limits: list[tuple[Doubles, Doubles]] = []
        self.agreements = self.decisions = 0
        self.ranges: Ranges = {}

    def fitted(self, config: Config, about: str) -> Trees:
        """The trees."""
        settings = config.distillation
        job, stage = (self._scored(rows, config) for rows in (self.jobs, self.stages))
        known, chances = (np.stack(parts) for parts in zip(*self.limits, strict=True))
        limit = grow(known, chances, settings.leaves, settings.least, _median_limit)
        return Trees(job, stage, limit, about, rounded(self.ranges))

    @staticmethod
    def _scored(rows: list[tuple[Doubles, Doubles]], config: Config) -> Tree:
        if not rows:
            raise InvalidInput(
                f"{config.name}: no decision of the episodes had two stages to choose from, so there is nothing "
                "to learn; take workloads with more jobs and stages"
            )
        known, chances = (np.concatenate(parts) for parts in zip(*rows, strict=True))
        return grow(known, chances[:, None], config.distillation.leaves, config.distillation.least, _chance)


def _chance(mean: Doubles) -> float:
    return float(f"{mean[0]:.3g}")


def _median_limit(chances: Doubles) -> float:
    """The median limit."""
    return LIMITS[int(np.searchsorted(chances.cumsum(), chances.sum() / 2))]


class DaggerEpisode:
    """One episode: pupil or teacher decides, and the teacher's probabilities are noted."""

    def __init__(self, dataset: TeacherDataset, teacher: Network, student: TreeDecider | None) -> None:
        self._dataset, self._teacher, self._student = dataset, teacher, student

    def ask(self, graph: Graph, _: ClusterView) -> Action:
        """The pupil's action, or the teacher's without a pupil."""
        self._dataset.ranges = merged([self._dataset.ranges, ranges_of(graph)])
        scores = self._teacher.scores(graph)
        best = int(scores.stages.argmax())
        wanted = Action(int(scores.jobs[best]), int(scores.rows[best]), 0)
        action = self._student.choose(graph).action if self._student else wanted
        limits, values = self._teacher.limits(graph, action.job)
        if not is_forced(graph):
            self._note(graph, scores, action, _by_limit(limits, values, graph.executors))
            self._dataset.decisions += 1
            self._dataset.agreements += action[:2] == wanted[:2]
        return action if self._student else wanted._replace(limit=limits[int(values.argmax())])

    def _note(self, graph: Graph, scores: Scores, action: Action, limits: Doubles) -> None:
        chances = np.exp(log_probabilities(scores.stages))
        jobs, of_jobs = tree_features.job_features(graph)
        self._dataset.jobs.append((of_jobs, np.bincount(scores.jobs, chances, len(graph.jobs))[jobs].astype(float)))
        rows, of_stages = tree_features.stage_features(graph.jobs[action.job])
        own = of_jobs[np.flatnonzero(jobs == action.job)]
        known = np.hstack([np.repeat(own, len(rows), axis=0), of_stages])
        mine = scores.jobs == action.job
        within = np.exp(log_probabilities(scores.stages[mine]))
        chance = np.bincount(scores.rows[mine], within, len(graph.jobs[action.job].stages)).astype(float)
        if len(rows) > 1:
            self._dataset.stages.append((known, chance[rows]))
        self._dataset.limits.append((known[rows == action.row][0], limits))


def _by_limit(limits: Sequence[int], values: Doubles, executors: int) -> Doubles:
    """Probability of each of LIMITS. A limit between two of them counts as the lower."""
    found = np.zeros(len(LIMITS))
    for limit, chance in zip(limits, np.exp(log_probabilities(values)), strict=True):
        at = -1 if limit == executors else int(np.searchsorted(LIMITS[:-1], limit, side="right")) - 1
        found[at] += chance
    return found


class Distillation:
    """A run in a folder, in this process alone. report: called with lines of progress."""

    def __init__(self, config: Config, folder: Path, report: Report) -> None:
        if (folder / BEST).exists():
            raise InvalidInput([Issue(str(folder), "holds trees already: name another --out")])
        self.config, self.folder, self._report = config, folder, report
        self._worker = RolloutWorker(playable(config.workloads))
        self._weights = model_store.weights_of(config.distillation.teacher)
        self._dataset = TeacherDataset()

    def run(self) -> float:
        """All rounds; the best trees are in the folder. Returns their score: 1 is as good as the teacher."""
        begun, settings = time.monotonic(), self.config.distillation
        reference = self._validated(None)
        best, trees = math.inf, None
        for number in range(settings.rounds):
            lessons = self._dataset
            lessons.agreements = lessons.decisions = 0
            for episode in range(settings.episodes):
                self._play(number * settings.episodes + episode, trees)
            trees = lessons.fitted(self.config, self._about(number + 1))
            jcts = self._validated(trees)
            score = self.config.score(jcts, reference)
            if score < best:
                best = score
                self.folder.mkdir(parents=True, exist_ok=True)
                write_file(self.folder / BEST, write(trees))
            left = (time.monotonic() - begun) / (number + 1) * (settings.rounds - number - 1)
            self._report(
                f"round {number + 1}/{settings.rounds}: {len(lessons.limits):,} decisions, played with "
                f"{lessons.agreements / max(1, lessons.decisions):.0%} as the teacher would; validation JCT "
                f"{', '.join(f'{jct:.1f} s' for jct in jcts)}, {score:.3f} of {settings.teacher} (best {best:.3f})"
                + (f", {left / 60:.0f} min left" if left else "")
            )
        return best

    def _about(self, rounds: int) -> str:
        config = self.config
        return (
            f"Decision trees distilled from {config.distillation.teacher}: {rounds} rounds of "
            f"{config.distillation.episodes} episodes (rm-emulator train {config.name}).\n"
            "job: how likely it is that a job is chosen; the likeliest is, of equals the first by the rule priced.\n"
            "stage: the same for its stages; of equals an open one, then the one with the longest path.\n"
            "limit: how many executors the job may have then."
        )

    def _play(self, number: int, trees: Trees | None) -> None:
        draws = keyed.generator(self.config.seed, "lesson", number)
        workload = self.config.workload(draws)
        limit = self.config.workloads[workload].limit_ms(draws)
        lesson = DaggerEpisode(self._dataset, Network(self._weights), trees and TreeDecider(trees))
        self._worker.episode(workload, FIRST_TRAINING_SEED + number, limit).play(lesson.ask)

    def _validated(self, trees: Trees | None) -> list[float]:
        """By workload the mean JCT on the validation seeds, s; trees None: the teacher's."""
        found = []
        for workload, each in enumerate(self.config.workloads):
            jcts = []
            for seed in self.config.validation.numbers:
                ask = (
                    DaggerEpisode(TeacherDataset(), Network(self._weights), None).ask
                    if trees is None
                    else _asked(TreeDecider(trees))
                )
                jcts.append(self._worker.episode(workload, seed, each.validated_ms).play(ask).jct_s)
            found.append(float(np.mean(jcts)))
        return found


def _asked(trees: TreeDecider) -> Ask[Graph, Action]:
    return lambda graph, _: trees.choose(graph).action
