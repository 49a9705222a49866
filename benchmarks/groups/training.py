"""Group `learned`: what training `decima` takes, in one process: episodes, and a whole iteration of PPO."""

from __future__ import annotations

import time
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.rows import Row, benchmark
from rm_emulator.learn import config as configs
from rm_emulator.learn.config import FIRST_TRAINING_SEED, Config
from schedulers.learned import model_store
from schedulers.learned.weights import Weights, pack

if TYPE_CHECKING:
    from rm_emulator.learn.rollouts import Rollout


@benchmark("training", "learned")
def training(tiny: bool) -> Iterator[Row]:
    """Sampled episodes of 20 TPC-H jobs at once on 50 executors, and, where torch is there, learning from them."""
    from rm_emulator.learn.rollouts import RolloutTask, RolloutWorker, playable  # needs the extra learn

    config = configs.read(configs.find("decima"))
    weights, worker = model_store.weights_of("decima", "decima"), RolloutWorker(playable(config.workloads[:1]))
    sequences, rollouts = (1, 2) if tiny else (config.sequences, config.rollouts)
    begun = time.process_time()
    player = pack(weights)
    episodes = [
        worker.play(RolloutTask(0, FIRST_TRAINING_SEED + sequence, rollout, player, keep_fraction=config.ppo.keep))
        for sequence in range(sequences)
        for rollout in range(rollouts)
    ]
    played = time.process_time() - begun
    note = f"of {len(episodes)} episodes of 20 TPC-H jobs on 50 executors; CPU time of one process"
    yield Row(name="rollouts_per_s", value=len(episodes) / played, unit="1/s", note=note)
    if find_spec("torch") is not None:
        _learn(config, weights, episodes, rollouts)
        taken = time.process_time() - begun
        yield Row(name="train_iteration_s", value=taken, unit="s", note=f"the same, and PPO on its decisions: {note}")


def _learn(config: Config, weights: Weights, episodes: list[Rollout], rollouts: int) -> None:
    from rm_emulator.learn import ppo
    from rm_emulator.learn.network import DecimaNetwork
    from rm_emulator.learn.samples import SequenceRollouts, features_of, normalised_advantages

    network = DecimaNetwork(weights)
    optimiser = network.adam(config.ppo.learning_rate)
    horizon_s = config.workloads[0].horizon_s
    groups = [SequenceRollouts(episodes[i : i + rollouts], horizon_s, False) for i in range(0, len(episodes), rollouts)]
    worth = normalised_advantages(groups, 0.0, critic=features_of)
    decisions = [decision for episode in episodes for decision in episode.decisions]
    ppo.improve(network, optimiser, decisions, worth, config.ppo, config.entropy.first, np.random.default_rng(1))
