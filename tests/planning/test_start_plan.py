"""Plans for STRL: the program's optimum is that of trying everything, and no plan holds a machine twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from random import Random

import numpy as np
import pytest

from schedulers.planning.tetrisched import start_plan as module
from schedulers.planning.tetrisched.start_plan import Request, StartPlan, one_by_one, plan
from schedulers.planning.tetrisched.strl import (
    Barrier,
    Choose,
    Expression,
    Leaf,
    Linear,
    Max,
    Min,
    Scale,
    Sum,
    UpTo,
    leaves,
    parse,
    value,
)
from schedulers.planning.tetrisched.supply import Supply

SLICES = 4


class Draw:
    """A small case: at most four leaves, three machines, four slices."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        machines = random.randint(1, 3)
        self.sets = {name: sorted(random.sample(range(machines), random.randint(1, machines))) for name in ("a", "b")}
        self.busy = [random.choice([0, 0, 0, 1, 2]) for _ in range(machines)]
        self.left = random.randint(1, 4)
        self.requests = [Request("j0", self.expression(2))]
        while self.left:
            self.requests.append(Request(f"j{len(self.requests)}", self.expression(2)))

    def expression(self, depth: int) -> Expression:
        random = self.random
        kind = random.choice(["leaf", "scale", "barrier", "max", "min", "sum", "upto"]) if depth else "leaf"
        if kind == "leaf" or self.left <= 1:
            return self.leaf()
        if kind == "scale":
            return Scale(random.choice([0.5, 2, 3]), self.expression(depth - 1))
        if kind == "barrier":
            return Barrier(random.randint(0, 6), self.expression(depth - 1))
        of = (self.expression(depth - 1), *((self.expression(depth - 1),) if self.left else ()))
        if kind == "upto":
            return UpTo(random.randint(1, 3), of)
        return {"max": Max, "min": Min, "sum": Sum}[kind](of)

    def leaf(self) -> Leaf:
        random = self.random
        self.left = max(0, self.left - 1)
        kind = random.choice([Choose, Linear])
        start = random.choice([None, 0, 1, 2, 3, 5])
        return kind(random.choice("ab"), random.randint(1, 3), random.randint(0, 9), start, random.randint(1, 3))

    def supply(self) -> Supply:
        room = np.array([[[int(at >= until)] for at in range(SLICES)] for until in self.busy])
        return Supply(self.sets, room)

    def best(self) -> float:
        """By trying every set of machines for every leaf."""
        return max(value for value in self._tried(0, [], []))

    def _tried(self, number: int, held: list[tuple[int, int, int]], counts: list[list[int]]) -> Iterator[float]:
        mine = [leaf for request in self.requests for leaf in leaves(request.wants)]
        flat = [count[0] for count in counts]
        if number == len(mine):
            yield self.worth(flat)
            return
        leaf = mine[number]
        first = leaf.start or 0
        dur = leaf.dur or 1
        sizes = [0] if first >= SLICES else [0, leaf.k] if isinstance(leaf, Choose) else range(leaf.k + 1)
        free = [
            machine
            for machine in self.sets[leaf.set]
            if self.busy[machine] <= first
            and not any(m == machine and first < end and begin < first + dur for m, begin, end in held)
        ]
        for size in sizes:
            for chosen in combinations(free, size):
                taken = [*held, *((machine, first, first + dur) for machine in chosen)]
                yield from self._tried(number + 1, taken, [*counts, [size]])

    def worth(self, counts: Sequence[int]) -> float:
        """Of all together; less than nothing where a rule of max or upto is broken."""
        rest = list(counts)
        total = 0.0
        for request in self.requests:
            mine = [rest.pop(0) for _ in leaves(request.wants)]
            if not keeps(request.wants, iter(mine)):
                return -1.0
            total += value(request.wants, mine)
        return total


def keeps(wants: Expression, counts: Iterator[int]) -> bool:
    """Whether at most one child of each max holds machines, and upto no more than it may."""
    if isinstance(wants, Leaf):
        next(counts)
        return True
    children = (wants.of,) if isinstance(wants, Scale | Barrier) else wants.of
    held, sound = [], True
    for child in children:
        mine = [next(counts) for _ in leaves(child)]
        sound = keeps(child, iter(mine)) and sound
        held.append(sum(mine))
    if isinstance(wants, Max):
        sound = sound and sum(1 for each in held if each) <= 1
    return sound and not (isinstance(wants, UpTo) and sum(held) > wants.k)


def machines_of(made: StartPlan, requests: Sequence[Request], supply: Supply, busy: Sequence[int]) -> None:
    """Give every planned machines of its classes, the first to start in front; fails where one has to be held twice."""
    until = list(busy)
    rows = []
    for planned in made.starts:
        leaf = list(leaves(requests[planned.request].wants))[planned.leaf]
        rows.append((leaf.start or 0, leaf.dur or 1, planned.held))
    for start, dur, held in sorted(rows, key=lambda row: row[0]):
        for place, count in held.items():
            free = [m for m in supply.classes[place] if until[m] <= start]
            assert len(free) >= count
            for machine in free[:count]:
                until[machine] = start + dur


@pytest.mark.parametrize("block", range(10))
def test_the_optimum_is_that_of_trying_everything(block: int) -> None:
    for seed in range(50 * block, 50 * block + 50):
        draw = Draw(seed)
        assert plan(draw.requests, draw.supply()).objective == pytest.approx(draw.best()), seed


@pytest.mark.parametrize("how", [plan, one_by_one])
def test_no_plan_holds_a_machine_twice(how: type) -> None:
    for seed in range(200):
        draw = Draw(seed)
        supply = draw.supply()
        made = how(draw.requests, supply)
        machines_of(made, draw.requests, supply, draw.busy)
        counts = [0] * sum(1 for request in draw.requests for _ in leaves(request.wants))
        firsts = np.cumsum([0, *(len(list(leaves(request.wants))) for request in draw.requests)])
        for planned in made.starts:
            counts[firsts[planned.request] + planned.leaf] = sum(planned.held.values())
        assert draw.worth(counts) == pytest.approx(made.objective)


def test_greedy_is_never_better_than_all_together() -> None:
    for seed in range(100):
        draw = Draw(seed)
        together, alone = plan(draw.requests, draw.supply()), one_by_one(draw.requests, draw.supply())
        assert alone.objective <= together.objective + 1e-6


def test_a_scale_multiplies_the_optimum() -> None:
    for seed in range(50):
        draw = Draw(seed)
        scaled = [Request(each.name, Scale(3, each.wants)) for each in draw.requests]
        assert plan(scaled, draw.supply()).objective == pytest.approx(3 * draw.best())


def four(slices: int = 1) -> Supply:
    return Supply({"all": range(4)}, np.full((4, slices, 1), 2))


def test_tasks_that_ask_for_more_than_one_unit_are_counted_by_machine() -> None:
    wants = parse("LnCk(all, k=9, v=9)")
    assert plan([Request("j", wants, (1,))], four()).objective == 8
    assert plan([Request("j", wants, (2,))], four()).objective == 4
    assert plan([Request("j", wants, (3,))], four()).objective == 0


def test_what_a_plan_takes_is_gone_for_the_next() -> None:
    supply = four(3)
    plan([Request("a", parse("nCk(all, k=7, start=1, dur=1, v=1)"))], supply)
    assert plan([Request("b", parse("LnCk(all, k=8, start=0, dur=2, v=8)"))], supply).objective == 1
    assert plan([Request("c", parse("LnCk(all, k=8, start=0, dur=1, v=8)"))], supply).objective == 7


def test_without_a_request_there_is_nothing_to_plan() -> None:
    assert plan([], four()) == StartPlan((), 0.0)


def test_a_problem_that_is_too_large_is_planned_greedily(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_LEAVES", 1)
    requests = [Request(name, parse("nCk(all, k=1, v=1)")) for name in "ab"]
    made = plan(requests, four())
    assert (made.how, made.objective) == ("large", 2)


def test_a_solver_that_the_clock_stops_leaves_the_greedy_plan_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = [
        Request("a", parse("max(nCk(gpu, k=2, v=6), nCk(all, k=2, v=5))")),
        Request("b", parse("nCk(gpu, k=2, v=9)")),
    ]

    def supply() -> Supply:
        return Supply({"gpu": (0, 1), "all": range(4)}, np.ones((4, 1, 1), dtype=int))

    assert plan(requests, supply()).objective == 14
    monkeypatch.setattr(module, "SECONDS", 0.0)
    made = plan(requests, supply())
    assert (made.how, made.objective) == ("stopped", 6)
    assert plan(requests, supply(), stopped=True) == made
