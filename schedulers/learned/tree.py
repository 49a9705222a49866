"""Decision trees as text for people to read and patch, in place of Decima's network (Hu et al., arXiv 2405.19131).

A file has three trees: `job` scores jobs, and the best job is taken; `stage` scores the job's stages in the same way;
`limit` says how many executors the job may have then. A tree is a number (as a limit also `all`: every executor), or a
branch, {if: FACT <= NUMBER, then: tree, else: tree}. A file may have `ranges` of what training met, {FEATURE: [LOWEST,
HIGHEST]}, see `fallback`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
import numpy as np

from schedulers.core.errors import InvalidTree, nearest
from schedulers.learned import tree_features
from schedulers.learned.graph import Action, Doubles, Graph
from schedulers.learned.limits import candidates
from schedulers.learned.ranges import FEATURES, Range, Ranges
from schedulers.learned.tree_features import FLAGS, TREE_FEATURES

#: Largest numbers of questions, one below another and in all.
_LEVELS: Final = 64
_QUESTIONS: Final = 10_000
_NAMES: Final = tuple(TREE_FEATURES)


class TreeSplit(msgspec.Struct, frozen=True):
    """A question about one feature."""

    feature: int
    """Index in FACTS."""
    most: float
    then: Tree
    """Where the feature is at most `most`."""
    other: Tree
    """Where the feature is larger."""


#: A tree; a number is a leaf.
Tree: TypeAlias = TreeSplit | float


class Trees(NamedTuple):
    """The content of a file."""

    job: Tree
    stage: Tree
    limit: Tree
    about: str = ""
    """Comment at the top of the file."""
    ranges: Mapping[str, Range] = {}
    """Ranges of training, outside of which a rule decides."""


def reasons(tree: Tree, row: Doubles) -> list[str]:
    """Questions on the way to this row's leaf, with the answers; the narrowest answer for each feature."""
    below: dict[int, float] = {}
    above: dict[int, float] = {}
    asked: dict[int, None] = {}
    while isinstance(tree, TreeSplit):
        asked[tree.feature] = None
        if row[tree.feature] <= tree.most:
            below[tree.feature] = min(below.get(tree.feature, math.inf), tree.most)
            tree = tree.then
        else:
            above[tree.feature] = max(above.get(tree.feature, -math.inf), tree.most)
            tree = tree.other
    said = []
    for feature in asked:
        if _NAMES[feature] in FLAGS:
            said.append(f"not {_NAMES[feature]}" if feature in below else _NAMES[feature])
            continue
        least = f"{above[feature]:g} < " if feature in above and feature in below else ""
        end = f" <= {below[feature]:g}" if feature in below else f" > {above[feature]:g}"
        said.append(f"{least}{_NAMES[feature]}{end}")
    return said


class Answer(NamedTuple):
    """The choice of trees, and the FACTS of the chosen job and stage."""

    action: Action
    features: Doubles


class TreeDecider:
    """Decides by trees. The best scores win; of equal scores the first in the order of `of_jobs` and `of_stages`."""

    def __init__(self, trees: Trees) -> None:
        self.trees = trees

    def choose(self, graph: Graph) -> Answer:
        """The job, its stage, and the limit: the largest candidate not above the tree's limit."""
        jobs, of_jobs = tree_features.job_features(graph)
        first = _best(self.trees.job, of_jobs)
        job = int(jobs[first])
        rows, of_stages = tree_features.stage_features(graph.jobs[job])
        known = np.hstack([np.tile(of_jobs[first], (len(rows), 1)), of_stages])
        at = _best(self.trees.stage, known)
        return Answer(Action(job, int(rows[at]), _limited(graph, job, value(self.trees.limit, known[at]))), known[at])


def _best(tree: Tree, rows: Doubles) -> int:
    """Index of the row of [rows, features] with the highest value; of equal values the first."""
    # Plain numbers: for the few rows of most decisions this is several times as fast as walking all rows in numpy.
    values = [value(tree, row) for row in rows.tolist()]
    return values.index(max(values))


def _limited(graph: Graph, job: int, wanted: float) -> int:
    """The largest candidate for the job not above the wanted limit, else the least candidate."""
    least, *above = candidates(graph.jobs[job].least, graph.executors)
    return max((each for each in above if each <= wanted), default=least)


def value(tree: Tree, row: Doubles | Sequence[float]) -> float:
    """The number at the leaf of this row."""
    while isinstance(tree, TreeSplit):
        tree = tree.then if row[tree.feature] <= tree.most else tree.other
    return tree


# -- text ---------------------------------------------------------------------------------------


def write(trees: Trees) -> str:
    """The file's text, with the meaning of each feature at the top."""
    lines = [f"# {line}" for line in trees.about.splitlines()]
    for what, known in (
        ("a job", tree_features.JOB_TREE_FEATURES),
        ("a stage of the chosen job, beside these", tree_features.STAGE_TREE_FEATURES),
    ):
        lines += ["#", f"# What may be asked of {what}:", *(f"#   {name}: {means}" for name, means in known.items())]
    parts = {"job": _lines(trees.job, _score), "stage": _lines(trees.stage, _score)}
    for name, part in {**parts, "limit": _lines(trees.limit, _limit)}.items():
        lines += [f"{name}:", *part]
    return "\n".join([*lines, *range_lines(trees.ranges), ""])


def range_lines(ranges: Ranges) -> list[str]:
    """The lines of ranges; none without any."""
    there = [f"  {name}: [{low:g}, {high:g}]" for name, (low, high) in ranges.items()]
    return ["# Outside of these ranges of training the rule priced decides.", "ranges:", *there] if there else []


def _score(value: float) -> str:
    return f"{value:.4g}"


def _limit(value: float) -> str:
    return "all" if math.isinf(value) else f"{value:.0f}"


def _lines(tree: Tree, shown: Callable[[float], str], indent: str = "  ") -> Iterator[str]:
    if not isinstance(tree, TreeSplit):
        yield f"{indent}{shown(tree)}"
        return
    yield f"{indent}if: {_NAMES[tree.feature]} <= {tree.most:g}"
    for word, side in (("then", tree.then), ("else", tree.other)):
        if isinstance(side, TreeSplit):
            yield f"{indent}{word}:"
            yield from _lines(side, shown, indent + "  ")
        else:
            yield f"{indent}{word}: {shown(side)}"


def read(text: str | bytes, file: str) -> Trees:
    """The trees of a file; file: its name in messages. Raises InvalidTree with the line."""
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
    parts = reader.keys(root, ("job", "stage", "limit"), "a file of trees", ("ranges",))
    job = reader.tree(parts["job"], reader.score, len(tree_features.JOB_TREE_FEATURES))
    stage = reader.tree(parts["stage"], reader.score, len(TREE_FEATURES))
    limit = reader.tree(parts["limit"], reader.limit, len(TREE_FEATURES))
    return Trees(job, stage, limit, ranges=reader.ranges(parts["ranges"]) if "ranges" in parts else {})


class _Reader:
    """YAML nodes as trees; mistakes with file and line."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._left = _QUESTIONS

    def _wrong(self, node: Any, message: str) -> InvalidTree:
        return InvalidTree(f"{self._file}:{node.start_mark.line + 1}: {message}")

    def keys(self, node: Any, wanted: tuple[str, ...], what: str, more: tuple[str, ...] = ()) -> dict[str, Any]:
        """The values of a mapping with exactly these keys; `more` may be missing."""
        if node.id != "mapping":
            raise self._wrong(node, f"expected {what}, with {', '.join(wanted)}")
        found: dict[str, Any] = {}
        for key, value in node.value:
            name = str(key.value)
            if name not in (*wanted, *more) or name in found:
                problem = "given twice" if name in found else f"no key of {what}"
                raise self._wrong(key, f"'{name}': {problem} (keys: {', '.join((*wanted, *more))})")
            found[name] = value
        if missing := [name for name in wanted if name not in found]:
            raise self._wrong(node, f"{what} without '{missing[0]}' (keys: {', '.join(wanted)})")
        return found

    def tree(self, node: Any, leaf: Callable[[Any], float], known: int, levels: int = _LEVELS) -> Tree:
        """A tree with leaves read by `leaf`. known: number of FACTS that the tree may use."""
        if node.id == "scalar":
            return leaf(node)
        self._left -= 1
        if not levels or self._left < 0:
            raise self._wrong(node, f"more than {_LEVELS} questions in a row, or {_QUESTIONS:,} in all")
        parts = self.keys(node, ("if", "then", "else"), "a branch")
        feature, most = self._question(parts["if"], _NAMES[:known])
        return TreeSplit(feature, most, *(self.tree(parts[side], leaf, known, levels - 1) for side in ("then", "else")))

    def ranges(self, node: Any) -> dict[str, Range]:
        """Ranges by feature."""
        parts = self.keys(node, (), "ranges", tuple(FEATURES))
        return {name: self._range(part) for name, part in parts.items()}

    def _range(self, node: Any) -> Range:
        there = node.value if node.id == "sequence" else []
        ends = [self._number(end, end.value, "a number") for end in there if end.id == "scalar"]
        if len(ends) != 2 or ends[0] > ends[1]:
            raise self._wrong(node, "expected a range, [LOWEST, HIGHEST]")
        return ends[0], ends[1]

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
        """A leaf of `job` or `stage`."""
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
