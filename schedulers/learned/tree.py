"""Decision trees as text that people can read and patch, in Decima's place (Hu et al., arXiv 2405.19131).

A file has three: `job` scores jobs, and the best is taken; `stage` scores its stages likewise; `limit` says how many
executors the job may have then. A tree is a number (as a limit also `all`: every executor), or a branch,
{if: FACT <= NUMBER, then: tree, else: tree}.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
import numpy as np

from schedulers.core.errors import InvalidTree, nearest
from schedulers.learned import facts
from schedulers.learned.facts import FACTS, FLAGS
from schedulers.learned.graph import Action, Doubles, Graph
from schedulers.learned.limits import candidates

#: As many questions there may be, one below the other and in all.
_LEVELS: Final = 64
_QUESTIONS: Final = 10_000
_NAMES: Final = tuple(FACTS)


class Branch(msgspec.Struct, frozen=True):
    """fact: index in FACTS; then: the tree where it is at most `most`, else `other`."""

    fact: int
    most: float
    then: Tree
    other: Tree


#: A tree; a number is a leaf.
Tree: TypeAlias = Branch | float


class Trees(NamedTuple):
    """What a file holds. about: what it says of itself."""

    job: Tree
    stage: Tree
    limit: Tree
    about: str = ""


def reasons(tree: Tree, row: Doubles) -> list[str]:
    """What was asked on the way to this row's leaf and how it was answered; the narrowest answer for each fact."""
    below: dict[int, float] = {}
    above: dict[int, float] = {}
    asked: dict[int, None] = {}
    while isinstance(tree, Branch):
        asked[tree.fact] = None
        if row[tree.fact] <= tree.most:
            below[tree.fact] = min(below.get(tree.fact, math.inf), tree.most)
            tree = tree.then
        else:
            above[tree.fact] = max(above.get(tree.fact, -math.inf), tree.most)
            tree = tree.other
    said = []
    for fact in asked:
        if _NAMES[fact] in FLAGS:
            said.append(f"not {_NAMES[fact]}" if fact in below else _NAMES[fact])
            continue
        least = f"{above[fact]:g} < " if fact in above and fact in below else ""
        end = f" <= {below[fact]:g}" if fact in below else f" > {above[fact]:g}"
        said.append(f"{least}{_NAMES[fact]}{end}")
    return said


class Answer(NamedTuple):
    """What trees chose, and FACTS of that job and stage."""

    action: Action
    facts: Doubles


class Decider:
    """Answers by trees. The best scores are taken; of equals the first in the order of `of_jobs` and `of_stages`."""

    def __init__(self, trees: Trees) -> None:
        self.trees = trees

    def choose(self, graph: Graph) -> Answer:
        """The job, its stage, and the limit: of those that may be chosen the largest that is not above the tree's."""
        jobs, of_jobs = facts.of_jobs(graph)
        first = _best(self.trees.job, of_jobs)
        job = int(jobs[first])
        rows, of_stages = facts.of_stages(graph.jobs[job])
        known = np.hstack([np.tile(of_jobs[first], (len(rows), 1)), of_stages])
        at = _best(self.trees.stage, known)
        return Answer(Action(job, int(rows[at]), _limited(graph, job, value(self.trees.limit, known[at]))), known[at])


def _best(tree: Tree, rows: Doubles) -> int:
    """The one of [rows, facts] with the highest value, the first of equals."""
    # Plain numbers: for the few rows of most decisions that is several times as fast as the tree as arrays.
    values = [value(tree, row) for row in rows.tolist()]
    return values.index(max(values))


def _limited(graph: Graph, job: int, wanted: float) -> int:
    """The largest limit for the job that may be chosen and is not above the wanted one, else the least."""
    least, *above = candidates(graph.jobs[job].least, graph.executors)
    return max((each for each in above if each <= wanted), default=least)


def value(tree: Tree, row: Doubles | Sequence[float]) -> float:
    """Of this row's leaf."""
    while isinstance(tree, Branch):
        tree = tree.then if row[tree.fact] <= tree.most else tree.other
    return tree


# -- text ---------------------------------------------------------------------------------------


def write(trees: Trees) -> str:
    """The file, with what each fact means in front."""
    lines = [f"# {line}" for line in trees.about.splitlines()]
    for what, known in (("a job", facts.JOB_FACTS), ("a stage of the chosen job, beside these", facts.STAGE_FACTS)):
        lines += ["#", f"# What may be asked of {what}:", *(f"#   {name}: {means}" for name, means in known.items())]
    parts = {"job": _lines(trees.job, _score), "stage": _lines(trees.stage, _score)}
    for name, part in {**parts, "limit": _lines(trees.limit, _limit)}.items():
        lines += [f"{name}:", *part]
    return "\n".join([*lines, ""])


def _score(value: float) -> str:
    return f"{value:.4g}"


def _limit(value: float) -> str:
    return "all" if math.isinf(value) else f"{value:.0f}"


def _lines(tree: Tree, shown: Callable[[float], str], indent: str = "  ") -> Iterator[str]:
    if not isinstance(tree, Branch):
        yield f"{indent}{shown(tree)}"
        return
    yield f"{indent}if: {_NAMES[tree.fact]} <= {tree.most:g}"
    for word, side in (("then", tree.then), ("else", tree.other)):
        if isinstance(side, Branch):
            yield f"{indent}{word}:"
            yield from _lines(side, shown, indent + "  ")
        else:
            yield f"{indent}{word}: {shown(side)}"


def read(text: str | bytes, file: str) -> Trees:
    """The trees of a file; file: what messages call it. Raises InvalidTree with the line."""
    import yaml

    try:
        root = yaml.compose(text, yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "nested too deep, or no text"
        raise InvalidTree(f"{file}:{mark.line + 1 if mark else 1}: no YAML: {problem}") from None
    reader = _Reader(file)
    if root is None:
        raise InvalidTree(f"{file}:1: empty; a file of trees has the keys job, stage and limit")
    parts = reader.keys(root, ("job", "stage", "limit"), "a file of trees")
    job = reader.tree(parts["job"], reader.score, len(facts.JOB_FACTS))
    stage = reader.tree(parts["stage"], reader.score, len(FACTS))
    return Trees(job, stage, reader.tree(parts["limit"], reader.limit, len(FACTS)))


class _Reader:
    """YAML nodes as trees; mistakes with file and line."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._left = _QUESTIONS

    def _wrong(self, node: Any, message: str) -> InvalidTree:
        return InvalidTree(f"{self._file}:{node.start_mark.line + 1}: {message}")

    def keys(self, node: Any, wanted: tuple[str, ...], what: str) -> dict[str, Any]:
        """The values of a mapping with these keys and no others."""
        if node.id != "mapping":
            raise self._wrong(node, f"expected {what}, with {', '.join(wanted)}")
        found: dict[str, Any] = {}
        for key, value in node.value:
            name = str(key.value)
            if name not in wanted or name in found:
                problem = "given twice" if name in found else f"no key of {what}"
                raise self._wrong(key, f"'{name}': {problem} (keys: {', '.join(wanted)})")
            found[name] = value
        if missing := [name for name in wanted if name not in found]:
            raise self._wrong(node, f"{what} without '{missing[0]}' (keys: {', '.join(wanted)})")
        return found

    def tree(self, node: Any, leaf: Callable[[Any], float], known: int, levels: int = _LEVELS) -> Tree:
        """A tree whose leaves are read by `leaf`. known: how many of FACTS it may ask for."""
        if node.id == "scalar":
            return leaf(node)
        self._left -= 1
        if not levels or self._left < 0:
            raise self._wrong(node, f"more than {_LEVELS} questions in a row, or {_QUESTIONS:,} in all")
        parts = self.keys(node, ("if", "then", "else"), "a branch")
        fact, most = self._question(parts["if"], _NAMES[:known])
        return Branch(fact, most, *(self.tree(parts[side], leaf, known, levels - 1) for side in ("then", "else")))

    def _question(self, node: Any, known: tuple[str, ...]) -> tuple[int, float]:
        words = str(node.value).split() if node.id == "scalar" else []
        if len(words) != 3 or words[1] != "<=":
            raise self._wrong(node, f"'{' '.join(words)}': expected 'FACT <= NUMBER'")
        if words[0] not in known:
            near = nearest(words[0], known)
            hint = f", did you mean '{near}'?" if near else ""
            raise self._wrong(node, f"unknown fact '{words[0]}'{hint} (known here: {', '.join(known)})")
        return _NAMES.index(words[0]), self._number(node, words[2], "a number")

    def score(self, node: Any) -> float:
        """A leaf of `stage`."""
        return self._number(node, node.value, "a score or a branch")

    def limit(self, node: Any) -> float:
        """A leaf of `limit`."""
        if node.value == "all":
            return math.inf
        number = self._number(node, node.value, "a limit (executors, or all) or a branch")
        if number < 1 or number != round(number):
            raise self._wrong(node, f"{node.value}: a limit is a whole number of executors from 1 on, or all")
        return number

    def _number(self, node: Any, text: str, what: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise self._wrong(node, f"'{text}': expected {what}")
        return number
