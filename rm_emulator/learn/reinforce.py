"""REINFORCE with baselines by arrival sequence, as published for Decima (SIGCOMM'19, section 5.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import torch

from rm_emulator.learn.agents import Chosen, Decision, Seen
from rm_emulator.learn.network import TorchNetwork
from rm_emulator.learn.samples import Diverged, critic_loss, entropy, mean, minibatches

#: Number of decisions computed at once, to bound memory; the step does not depend on the number.
_AT_ONCE: Final = 1024


def improve(
    network: TorchNetwork,
    optimiser: torch.optim.Adam,
    decisions: Sequence[Decision[Seen, Chosen]],
    advantages: np.ndarray,
    bonus: float,
    generator: np.random.Generator,
    critic_targets: np.ndarray | None = None,
) -> dict[str, float]:
    """One step of Adam over all decisions of an iteration; A2C if the network has a critic. Raises Diverged.

    bonus: weight of the entropy. critic_targets: targets of the critic.
    """
    optimiser.zero_grad()
    losses, entropies = [], []
    for lot in minibatches(network, decisions, advantages, -(-len(decisions) // _AT_ONCE), generator, critic_targets):
        judged = network(lot.inputs)
        loss = -(judged.log_probability * lot.advantage).sum()
        spread = entropy(judged)
        (loss - bonus * spread.sum() + len(spread) * critic_loss(judged, lot)).backward()
        losses.append(loss.item() / len(lot.advantage))
        entropies.append(spread.mean().item())
    if not all(torch.isfinite(p.grad).all() for p in network.parameters() if p.grad is not None):
        raise Diverged("a gradient is no number: no step is taken; lower the learning rate and go on with --resume")
    optimiser.step()
    return {"losses/policy": mean(losses), "losses/entropy": mean(entropies), "losses/steps": 1.0}
