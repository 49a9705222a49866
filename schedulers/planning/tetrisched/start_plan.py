"""The best planned starts for wishes in STRL: compiled to a mixed-integer program and solved, or found greedily.

TetriSched (EuroSys'16), section 5: a variable per leaf and class of machines, so machines alike for all wishes are
counts; the room is a constraint in each slice with a start. HiGHS (`scipy.optimize.milp`) is stopped by gap and by
nodes of its tree, both counted, so equal input has equal output on every machine. The limit in seconds is only a safety
net against a hanging solver: a caller stopped by the limit takes the greedy plan, and has to remember the stop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import msgspec
import numpy as np

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
    value,
)
from schedulers.planning.tetrisched.supply import Supply

if TYPE_CHECKING:
    from scipy.sparse import csr_array

#: Most nodes of the solver's tree, for a plan of all jobs and for a job alone (greedy plan).
NODES: Final = 500
_NODES_ALONE: Final = 100
#: Seconds, for the safety net alone; less than the time after which a silent leader is replaced.
SECONDS: Final = 8.0
#: Larger problems are planned greedily at once.
MOST_LEAVES: Final = 20_000


class Request(msgspec.Struct, frozen=True):
    """A request: its name, its expression, and the demand on each machine of a leaf (of each resource)."""

    name: str
    wants: Expression
    demand: tuple[int, ...] = (1,)


How = Literal["solved", "asked", "large", "nothing", "stopped"]


class PlannedStart(NamedTuple):
    """A leaf with the machines held. request, leaf: numbers in the order given. held: machines by class."""

    request: int
    leaf: int
    held: dict[int, int]


class StartPlan(msgspec.Struct, frozen=True):
    """A plan. how: 'solved', or why greedy: 'asked', too 'large', the solver found 'nothing' or was 'stopped'."""

    starts: tuple[PlannedStart, ...]
    objective: float
    how: How = "solved"


def plan(requests: Sequence[Request], supply: Supply, *, gap: float = 0.0, stopped: bool = False) -> StartPlan:
    """The best plan for all together, within `gap` of the best (a share). The starts are taken from `supply`.

    stopped: the solver is known to be stopped by the clock; the same plan is made without trying again.
    """
    if not requests:
        return StartPlan((), 0.0)
    if sum(1 for request in requests for _ in leaves(request.wants)) > MOST_LEAVES:
        return one_by_one(requests, supply, how="large")
    solved = "stopped" if stopped else _solve(requests, supply, gap, NODES, SECONDS)
    if isinstance(solved, str):
        return one_by_one(requests, supply, how=solved)
    return _settled(requests, solved, supply, "solved")


def one_by_one(requests: Sequence[Request], supply: Supply, *, how: How = "asked") -> StartPlan:
    """Each request in turn, as well as can be for itself, with the rest of earlier requests. Taken from `supply`."""
    made: list[PlannedStart] = []
    objective = 0.0
    for number, request in enumerate(requests):
        solved = _solve([request], supply, 0.0, _NODES_ALONE, None)
        if not isinstance(solved, str):
            alone = _settled([request], solved, supply, how)
            made += [planned._replace(request=number) for planned in alone.starts]
            objective += alone.objective
    return StartPlan(tuple(made), objective, how)


def _settled(requests: Sequence[Request], held: Sequence[list[dict[int, int]]], supply: Supply, how: How) -> StartPlan:
    """The planned starts without waste, in the order given, taken from the supply."""
    made: list[PlannedStart] = []
    objective = 0.0
    for number, (request, mine) in enumerate(zip(requests, held, strict=True)):
        objective += _trim(request.wants, mine)
        for index, (leaf, there) in enumerate(zip(leaves(request.wants), mine, strict=True)):
            if there:
                made.append(PlannedStart(number, index, there))
                first = _first(leaf, supply)
                assert first is not None
                for place, count in there.items():
                    supply.take(place, first, supply.last(first, _dur(leaf, supply)), request.demand, count)
    return StartPlan(tuple(made), objective, how)


def _trim(wants: Expression, held: list[dict[int, int]]) -> float:
    """Give back machines without effect on the value, last leaf first; returns the value of the rest."""
    counts = [sum(there.values()) for there in held]
    worth = value(wants, counts)
    for index, leaf in reversed(list(enumerate(leaves(wants)))):
        had = counts[index]
        if not had:
            continue
        low, high = 0, had  # nCk has nothing between 0 and k; LnCk's value grows with each machine
        while low < high:
            counts[index] = middle = 0 if isinstance(leaf, Choose) else (low + high) // 2
            if value(wants, counts) >= worth - 1e-9 * max(1.0, worth):
                high = middle
            else:
                low = had if isinstance(leaf, Choose) else middle + 1
        counts[index] = high
        for place in reversed(list(held[index])):
            spare = min(sum(held[index].values()) - high, held[index][place])
            held[index][place] -= spare
            if not held[index][place]:
                del held[index][place]
    return value(wants, counts)


def _first(leaf: Leaf, supply: Supply) -> int | None:
    return 0 if leaf.start is None else supply.slice_of(leaf.start)


def _dur(leaf: Leaf, supply: Supply) -> int:
    return supply.quantum if leaf.dur is None else leaf.dur


# -- the program ----------------------------------------------------------------------------------

#: A sum of variables with factors.
_Terms = dict[int, float]


class _Program:
    """Columns (variables) and rows (constraints) of the program. TetriSched, section 5.1 (algorithm 1)."""

    def __init__(self, supply: Supply) -> None:
        self._supply = supply
        self.whole: list[bool] = []
        self.upper: list[float] = []
        self.rows: list[tuple[_Terms, float]] = []
        """Sums, each with its upper bound."""
        self.equal: list[_Terms] = []
        """Sums equal to 0."""
        self.leaves: list[list[dict[int, _Terms]]] = []
        """By request and leaf: machines held, by class."""
        self._uses: dict[tuple[int, int], list[tuple[_Terms, float, tuple[int, ...]]]] = {}
        self._starts: set[int] = set()

    def column(self, upper: float, *, whole: bool = True) -> int:
        self.whole.append(whole)
        self.upper.append(upper)
        return len(self.whole) - 1

    def add(self, request: Request) -> _Terms:
        """Enter a request; returns its value."""
        self._demand = request.demand
        self._mine: list[dict[int, _Terms]] = []
        self.leaves.append(self._mine)
        return self._worth(request.wants, None)

    def _worth(self, wants: Expression, on: int | None) -> _Terms:
        """The value of a part. on: the column with 1 when the part is to hold machines; None: the part is free to."""
        match wants:
            case Choose():
                return self._choose(wants, self._own(on))
            case Linear():
                return self._linear(wants, on)
            case Scale():
                return {column: wants.by * factor for column, factor in self._worth(wants.of, on).items()}
            case Barrier():
                here = self._own(on)
                self._at_most({here: wants.at}, self._worth(wants.of, here))
                return {here: wants.at}
            case Min():
                here, least = self._own(on), self.column(np.inf, whole=False)
                for child in wants.of:
                    self._at_most({least: 1.0}, self._worth(child, here))
                return {least: 1.0}
        return self._all(wants, on)

    def _all(self, wants: Max | Sum | UpTo, on: int | None) -> _Terms:
        worth: _Terms = {}
        begun = len(self._mine)
        choices: _Terms = {}
        for child in wants.of:
            here = on
            if isinstance(wants, Max) or (on is not None and not _optional(child)):
                here = self.column(1)
                choices[here] = 1.0
                if isinstance(wants, Sum | UpTo) and on is not None:
                    self.rows.append(({here: 1.0, on: -1.0}, 0.0))
            _add(worth, self._worth(child, here))
        if isinstance(wants, Max):
            self.rows.append((choices, 1.0) if on is None else ({**choices, on: -1.0}, 0.0))
        if isinstance(wants, UpTo):
            held: _Terms = {}
            for leaf in self._mine[begun:]:
                for terms in leaf.values():
                    _add(held, terms)
            self.rows.append((held, float(wants.k)))
        return worth

    def _own(self, on: int | None) -> int:
        return self.column(1) if on is None else on

    def _at_most(self, terms: _Terms, most: _Terms) -> None:
        row = dict(terms)
        _add(row, most, -1.0)
        self.rows.append((row, 0.0))

    def _choose(self, leaf: Choose, on: int) -> _Terms:
        there = self._there(leaf)
        if sum(there.values()) < leaf.k:
            self._mine.append({})
            return {}
        if len(there) == 1:
            held = {place: {on: float(leaf.k)} for place in there}
        else:
            held = {place: {self.column(min(most, leaf.k)): 1.0} for place, most in there.items()}
            total: _Terms = {on: -float(leaf.k)}
            for terms in held.values():
                _add(total, terms)
            self.equal.append(total)
        self._hold(leaf, held, there)
        return {on: leaf.v}

    def _linear(self, leaf: Linear, on: int | None) -> _Terms:
        there = self._there(leaf)
        held = {place: {self.column(min(most, leaf.k)): 1.0} for place, most in there.items()}
        total: _Terms = {}
        for terms in held.values():
            _add(total, terms)
        if on is not None:
            self.rows.append(({**total, on: -float(leaf.k)}, 0.0))
        elif sum(there.values()) > leaf.k:
            self.rows.append((dict(total), float(leaf.k)))
        self._hold(leaf, held, there)
        return dict.fromkeys(total, leaf.v / leaf.k)

    def _there(self, leaf: Leaf) -> dict[int, int]:
        """Classes with room for a leaf at its start, and the number of machines."""
        first = _first(leaf, self._supply)
        if first is None:
            return {}
        supply = self._supply
        counts = supply.count(self._demand, single=leaf.set in supply.single)[:, first]
        return {place: most for place in supply.sets[leaf.set] if (most := int(counts[place])) > 0}

    def _hold(self, leaf: Leaf, held: dict[int, _Terms], there: Mapping[int, int]) -> None:
        self._mine.append(held)
        first = _first(leaf, self._supply)
        if first is None:
            return
        self._starts.add(first)
        for place, terms in held.items():
            most = float(min(there[place], leaf.k))
            for number in range(first, self._supply.last(first, _dur(leaf, self._supply))):
                self._uses.setdefault((place, number), []).append((terms, most, self._demand))

    def room(self) -> Iterator[tuple[_Terms, float]]:
        """Rows: the room suffices in each slice with a start or with less room than before, and so in all slices."""
        room = self._supply.free
        for (place, number), uses in self._uses.items():
            if number not in self._starts and (room[place, number] >= room[place, number - 1]).all():
                continue
            for resource, free in enumerate(room[place, number]):
                if sum(most * demand[resource] for _, most, demand in uses) > free:
                    row: _Terms = {}
                    for terms, _, demand in uses:
                        _add(row, terms, float(demand[resource]))
                    yield row, float(free)


def _optional(wants: Expression) -> bool:
    """Whether an expression may hold nothing though allowed to hold."""
    return _optional(wants.of) if isinstance(wants, Scale) else isinstance(wants, Linear | Max | Sum | UpTo)


def _add(to: _Terms, terms: Mapping[int, float], factor: float = 1.0) -> None:
    for column, each in terms.items():
        to[column] = to.get(column, 0.0) + factor * each


def _solve(
    requests: Sequence[Request], supply: Supply, gap: float, nodes: int, seconds: float | None
) -> list[list[dict[int, int]]] | Literal["stopped", "nothing"]:
    """By request and leaf the machines held by class; or why there is no answer: 'stopped' or 'nothing'."""
    from scipy.optimize import Bounds, LinearConstraint, milp  # a third of the start of a run that needs no solver

    program = _Program(supply)
    worth: _Terms = {}
    for request in requests:
        _add(worth, program.add(request))
    if not worth:
        return [[{} for _ in mine] for mine in program.leaves]
    rows = [*program.rows, *program.room()]
    lower = np.concatenate([np.full(len(rows), -np.inf), np.zeros(len(program.equal))])
    upper = np.concatenate([[most for _, most in rows], np.zeros(len(program.equal))])
    costs = np.zeros(len(program.whole))
    costs[list(worth)] = [-factor for factor in worth.values()]
    constraints = LinearConstraint(_matrix([*(row for row, _ in rows), *program.equal], len(costs)), lower, upper)
    options = {"mip_rel_gap": gap, "node_limit": nodes} | ({} if seconds is None else {"time_limit": seconds})
    found = milp(
        costs,
        integrality=np.array(program.whole, dtype=int),
        bounds=Bounds(0, np.array(program.upper)),
        constraints=constraints if len(lower) else None,
        options=options,
    )
    if found.status == 1 and "ime limit" in found.message:
        return "stopped"
    if found.x is None:
        return "nothing"
    return [[_held(leaf, found.x) for leaf in mine] for mine in program.leaves]


def _held(leaf: Mapping[int, _Terms], x: Sequence[float]) -> dict[int, int]:
    counts = {place: round(sum(x[column] * each for column, each in terms.items())) for place, terms in leaf.items()}
    return {place: count for place, count in counts.items() if count}


def _matrix(rows: Sequence[_Terms], columns: int) -> csr_array:
    from scipy.sparse import csr_array

    starts = np.cumsum([0, *(len(row) for row in rows)])
    where = np.fromiter((column for row in rows for column in row), dtype=np.int64, count=int(starts[-1]))
    factors = np.fromiter((each for row in rows for each in row.values()), dtype=float, count=int(starts[-1]))
    return csr_array((factors, where, starts), shape=(len(rows), columns))
