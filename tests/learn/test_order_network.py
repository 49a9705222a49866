"""LACHESIS's network in torch: the same as in numpy, whatever else is computed with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from schedulers.learned.network import log_probabilities
from schedulers.learned.order_network import OrderNetwork
from tests.learn.conftest import NEEDS_TORCH
from tests.learned.drawn_choices import drawn_choices, trained_somehow

if TYPE_CHECKING:
    from schedulers.learned.routes import RouteChoices

pytestmark = NEEDS_TORCH


def drawn(count: int) -> tuple[list[RouteChoices], list[int]]:
    generator = np.random.default_rng(1)
    seen = [drawn_choices(int(generator.integers(1, 6)), generator) for _ in range(count)]
    return seen, [int(np.flatnonzero(choices.valid)[-1]) for choices in seen]


def test_torch_and_numpy_say_the_same() -> None:
    import torch

    from rm_emulator.learn.order_network import Lachesis, order_batch

    weights, (seen, rows) = trained_somehow(), drawn(8)
    judged = Lachesis(weights).double()(order_batch(seen, rows, dtype=torch.float64))
    logs = [log_probabilities(OrderNetwork(weights).scores(choices)) for choices in seen]
    assert judged.stages.detach().numpy() == pytest.approx(np.concatenate(logs), abs=1e-9)
    assert judged.log_probability.detach().numpy() == pytest.approx([each[-1] for each in logs], abs=1e-9)
    assert judged.stage_entropy.detach().numpy() == pytest.approx([-(np.exp(e) * e).sum() for e in logs], abs=1e-9)


def test_the_critic_says_of_a_decision_what_it_says_of_it_alone() -> None:
    import torch

    from rm_emulator.learn.order_network import Lachesis, order_batch

    network, (seen, rows) = Lachesis(trained_somehow()).double(), drawn(5)
    together = network(order_batch(seen, rows, dtype=torch.float64)).value
    alone = [network(order_batch([s], [r], dtype=torch.float64)).value for s, r in zip(seen, rows, strict=True)]
    assert together is not None
    assert torch.allclose(together, torch.cat(alone))
    assert len(set(together.tolist())) == 5


def test_a_row_that_might_not_be_chosen_is_refused() -> None:
    from rm_emulator.learn.order_network import order_batch

    seen, rows = drawn(3)
    rows[1] = int(np.flatnonzero(~seen[1].valid)[0])
    with pytest.raises(ValueError, match="decision 1: its stage is not among those"):
        order_batch(seen, rows)


def test_weights_come_back_as_they_went_in() -> None:
    from rm_emulator.learn.order_network import Lachesis

    weights = trained_somehow()
    found = Lachesis(weights).export().arrays
    assert all(np.array_equal(found[name], array) for name, array in weights.arrays.items())
