"""PPO without a critic: the baseline is the mean of other rollouts (Schulman et al. 2017; spark-sched-sim's recipe)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import torch

from rm_emulator.learn.agents import Chosen, Decision, Seen
from rm_emulator.learn.config import Ppo
from rm_emulator.learn.network import TorchNetwork
from rm_emulator.learn.samples import critic_loss, descend, entropy, mean, minibatches

#: An update ends when the policy has moved this multiple of `target_kl` away from the policy that played.
STOP: Final = 1.5


def improve(
    network: TorchNetwork,
    optimiser: torch.optim.Adam,
    decisions: Sequence[Decision[Seen, Chosen]],
    advantages: np.ndarray,
    settings: Ppo,
    bonus: float,
    generator: np.random.Generator,
    critic_targets: np.ndarray | None = None,
) -> dict[str, float]:
    """Some epochs over an iteration's decisions, until the policy has moved enough. Raises Diverged.

    bonus: weight of the entropy. critic_targets: targets of the network's critic. Returns figures of the update.
    """
    batches = minibatches(network, decisions, advantages, settings.minibatches, generator, critic_targets)
    losses, entropies, kls, clipped, critic, steps = [], [], [], [], [], 0
    for _ in range(settings.epochs):
        for index in generator.permutation(len(batches)):
            minibatch = batches[index]
            evaluation, values = network(minibatch.inputs), minibatch.advantage
            change = evaluation.log_probability - minibatch.old_log_prob
            ratio = change.exp()
            with torch.no_grad():
                kls.append((ratio - 1 - change).mean().item())
                clipped.append(((ratio - 1).abs() > settings.clip).float().mean().item())
            if kls[-1] > STOP * settings.target_kl:
                break
            bounded = ratio.clamp(1 - settings.clip, 1 + settings.clip)
            gain = torch.minimum(ratio * values, bounded * values).mean()
            spread = entropy(evaluation).mean()
            wrong = critic_loss(evaluation, minibatch)
            descend(network, optimiser, wrong - gain - bonus * spread, settings.max_norm)
            critic.append(wrong.item())
            losses.append(-gain.item())
            entropies.append(spread.item())
            steps += 1
        else:
            continue
        break
    return {
        "losses/policy": mean(losses),
        "losses/entropy": mean(entropies),
        "losses/approx_kl": kls[-1] if kls else 0.0,
        "losses/clipfrac": mean(clipped),
        "losses/critic": mean(critic),
        "losses/steps": float(steps),
    }
