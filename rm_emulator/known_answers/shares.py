"""Fair allocations in closed form, with fractions of tasks: what the online policies are held against.

Capacities, demands and limits are sequences in one order of resources.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

_ENOUGH = 1e-12
_ROUNDS = 200_000


class User(msgspec.Struct, frozen=True, kw_only=True):
    """Who shares: what one task asks for, a weight, and how many tasks there are at most."""

    demand: tuple[float, ...]
    weight: float = 1.0
    most: float = math.inf


def drf(capacity: Sequence[float], users: Sequence[User]) -> list[float]:
    """Tasks of each user under DRF (NSDI'11, section 4.2): equal dominant shares per unit of weight, filled up."""
    return fill(capacity, users, max)


def fill(capacity: Sequence[float], users: Sequence[User], measure: Callable[[Iterable[float]], float]) -> list[float]:
    """Progressive filling: all grow at the same pace in `measure` of their shares; who meets a limit stops.

    Raises ValueError for a user that asks for nothing: it would never stop.
    """
    pace = []
    for user in users:
        cost = measure(d / c if c else math.inf for d, c in zip(user.demand, capacity, strict=True) if d)
        if not cost > 0:
            raise ValueError("a user that asks for nothing has no share")
        pace.append(user.weight / cost)
    tasks, left, growing = [0.0] * len(users), list(capacity), dict.fromkeys(range(len(users)))
    while growing:
        speed = [sum(users[u].demand[r] * pace[u] for u in growing) for r in range(len(left))]
        steps = [amount / taken for amount, taken in zip(left, speed, strict=True) if taken]
        step = min([*steps, *((users[u].most - tasks[u]) / pace[u] for u in growing)])
        for u in growing:
            tasks[u] += pace[u] * step
        left = [amount - taken * step for amount, taken in zip(left, speed, strict=True)]
        gone = [amount <= _ENOUGH * whole for amount, whole in zip(left, capacity, strict=True)]
        growing = {
            u: None
            for u in growing
            if tasks[u] < users[u].most * (1 - _ENOUGH)
            and not any(wanted and over for wanted, over in zip(users[u].demand, gone, strict=True))
        }
    return tasks


def ceei(capacity: Sequence[float], users: Sequence[User]) -> list[float]:
    """Tasks of each user at competitive equilibrium from equal incomes (NSDI'11, section 5.2).

    Prices move with demand (tatonnement) until nothing is asked for beyond what is there; the weight is the income.
    """
    prices = [sum(user.weight for user in users) / (len(capacity) * amount) for amount in capacity]
    tasks: list[float] = []
    for _ in range(_ROUNDS):
        costs = [sum(p * d for p, d in zip(prices, user.demand, strict=True)) for user in users]
        tasks = [user.weight / cost for user, cost in zip(users, costs, strict=True)]
        asked = [sum(t * user.demand[r] for t, user in zip(tasks, users, strict=True)) for r in range(len(capacity))]
        moved = [p * a / c for p, a, c in zip(prices, asked, capacity, strict=True)]
        if max(abs(new - old) for new, old in zip(moved, prices, strict=True)) < _ENOUGH * max(moved):
            break
        prices = moved
    return tasks


def max_min(capacity: float, weights: Sequence[float], least: Sequence[float], most: Sequence[float]) -> list[float]:
    """Max-min shares of one resource with minima and maxima (YARN's ComputeFairShares): weight x level, clipped."""

    def at(level: float) -> list[float]:
        return [max(a, min(b, w * level)) for w, a, b in zip(weights, least, most, strict=True)]

    if sum(most) <= capacity:
        return list(most)
    low, high = 0.0, 1.0
    while sum(at(high)) < capacity:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(at(middle)) < capacity else (low, middle)
    return at(high)


class Sorter:
    """Mesos' DRF sorter: clients named by paths, in the order in which they would be offered resources.

    A path's share is its whole allocation over the total, by weight, so inner ones are plain sums (naive H-DRF).
    A client that has others below it counts among those as one of weight 1. Order: share, then number of
    allocations, then name.
    """

    def __init__(self) -> None:
        self.total: Mapping[str, float] = {}
        """What there is in all."""
        self.weights: dict[str, float] = {}
        """Of clients and inner paths, 1 where none is set."""
        self._held: dict[str, dict[str, float]] = {}
        self._allocations: dict[str, int] = {}

    def add(self, client: str) -> None:
        """A client that holds nothing yet."""
        self._held[client], self._allocations[client] = {}, 0

    def remove(self, client: str) -> None:
        """The client is gone, with what it held."""
        del self._held[client], self._allocations[client]

    def allocate(self, client: str, amounts: Mapping[str, float]) -> None:
        """The client holds so much more."""
        self._allocations[client] += 1
        self._change(client, amounts, 1)

    def free(self, client: str, amounts: Mapping[str, float]) -> None:
        """The client holds so much less."""
        self._change(client, amounts, -1)

    def _change(self, client: str, amounts: Mapping[str, float], sign: int) -> None:
        held = self._held[client]
        for name, amount in amounts.items():
            held[name] = held.get(name, 0.0) + sign * amount

    def share(self, path: str) -> float:
        """Dominant share of a path with all below it, not weighted; resources of which there is none left out."""
        return self._share(held for client, held in self._held.items() if _is_below(client, path))

    def _share(self, parts: Iterable[Mapping[str, float]]) -> float:
        held = list(parts)
        return max((sum(h.get(n, 0.0) for h in held) / t for n, t in self.total.items() if t), default=0.0)

    def order(self) -> list[str]:
        """All clients, who is offered resources first in front."""
        return self._order("", list(self._held))

    def _order(self, path: str, clients: list[str]) -> list[str]:
        keyed = []
        depth = path.count("/") + 1 if path else 0
        for name in dict.fromkeys("/".join(client.split("/")[: depth + 1]) for client in clients):
            if name == path:  # the client itself, among those below it
                keyed.append(((self._share([self._held[name]]), self._allocations[name], name), [name]))
                continue
            mine = [client for client in clients if _is_below(client, name)]
            count = sum(self._allocations[client] for client in mine)
            inside = [name] if mine == [name] else self._order(name, mine)
            keyed.append(((self.share(name) / self.weights.get(name, 1.0), count, name), inside))
        return [client for _, inside in sorted(keyed) for client in inside]


def _is_below(client: str, path: str) -> bool:
    return client == path or client.startswith(f"{path}/")
