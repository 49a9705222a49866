"""What of a rule's gain comes from what, and what moves and fresh starts cost: by the fast simulator, in minutes.

    python -m studies.parts --data DIR

Every run is the engine's, task by task, where the engine has the rule; other rules are the engine's with one part
exchanged, and other costs are runs of the same draws without them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import numpy as np
import typer

from rm_emulator.learn.fast_jobs import FastRun, FastSetting, setting_of
from rm_emulator.learn.fast_kernel import FIRST, FIXED, FRESH, MANY, Rule
from rm_emulator.learn.fast_rules import rule_of
from rm_emulator.program import end
from rm_emulator.scenario.schema import Scenario
from studies.learned_settings import PROFILES, SETTINGS
from studies.tables import document, over_seeds, table


class Part(NamedTuple):
    """A rule with a part exchanged. policy: as in a scenario; changes: of the rule; hold: executors held at most."""

    policy: Mapping[str, Any]
    changes: Mapping[str, Any] = {}
    hold: int = MANY


_CURVES: Final = {"kind": "curves"}
#: By setting and label; the first of each is what the others are held against.
PARTS: Final[Mapping[str, Mapping[str, Part]]] = {
    setting: {
        "curves": Part(_CURVES),
        "curves, executors stay": Part(_CURVES, {"yields": False}),
        "curves, without widths": Part(_CURVES, {"limits": FIXED}),
        "curves, nothing is held": Part(_CURVES, hold=0),
        "capped_sjf": Part(capped),
        "capped_sjf, executors handed on": Part(capped, {"yields": True}),
    }
    for setting, capped in (
        ("batch", {"kind": "capped_sjf"}),
        ("stream", {"kind": "capped_sjf", "containers": 10.0}),
    )
}
SEEDS: Final[Mapping[str, int]] = {"batch": 100, "stream": 30}
BUDGET: Final = ("as measured", "moves free", "fresh starts as first ones", "both")
HEAD: Final = ("rule", "mean JCT, s", "difference, s", "better in")


def settings(name: str, data: Path, seeds: int, first: int = 1000) -> list[FastSetting]:
    """So many seeds, from the first one on, of a setting of `studies.learned`."""
    of = next(setting for setting in SETTINGS if setting.name == name)
    drawn = {**of.workload, "profiles": str((data / PROFILES).resolve())}
    policy = {"kind": "curves", "predictor": {"kind": "oracle"}}
    made = document(name, [1000], {"curves": policy}, cluster=of.cluster, workload=drawn)
    scenario = Scenario.model_validate(made)
    return [setting_of(scenario, first + number) for number in range(seeds)]


def rule(part: Part, setting: FastSetting) -> Rule:
    """A part as a rule for a setting."""
    jobs = [each.job for each in setting.workload]
    found = rule_of(part.policy, jobs, setting.told, setting.play.executors)._replace(**part.changes)
    found.jobs["hold"] = part.hold
    return found


def means(part: Part, found: Sequence[FastSetting]) -> list[float]:
    """Mean JCT by setting, s."""
    return [each.play.mean_jct_s(each.play.ends(rule(part, each), each.draws)) for each in found]


def rows(jcts: Mapping[str, Sequence[float]]) -> list[list[str]]:
    """Cells of HEAD; differences to the first, paired, with 95 % intervals over seeds."""
    first, made = next(iter(jcts)), []
    for label, ran in jcts.items():
        off = [one - other for one, other in zip(ran, jcts[first], strict=True)]
        better = f"{sum(each < 0 for each in off)} of {len(off)}"
        made.append([label, f"{np.mean(ran):.1f}", *(["", ""] if label == first else [over_seeds(off, 1), better])])
    return made


def budget(found: Sequence[FastSetting]) -> dict[str, list[float]]:
    """Mean JCT under `curves` with and without the cost of moves and of fresh executors."""
    changes = ((), (_unmoved,), (_warm,), (_unmoved, _warm))
    jcts = {}
    for label, made in zip(BUDGET, changes, strict=True):
        changed = list(found)
        for change in made:
            changed = [each._replace(play=change(each.play)) for each in changed]
        jcts[label] = means(Part(_CURVES), changed)
    return jcts


def _unmoved(play: FastRun) -> FastRun:
    """Executors change jobs in no time."""
    return play._replace(moving_ms=0)


def _warm(play: FastRun) -> FastRun:
    """Fresh executors are as fast as others at their first task of a stage."""
    lists = play.durations.lists.copy()
    lists[:, FRESH] = lists[:, FIRST]
    return play._replace(durations=play.durations._replace(lists=lists))


def tables(data: Path, most: int | None = None) -> dict[str, str]:
    """`parts-batch`, `parts-stream` and `budget`. most: seeds of each."""
    made = {}
    for name, parts in PARTS.items():
        found = settings(name, data, min(SEEDS[name], most or SEEDS[name]))
        made[f"parts-{name}"] = table(HEAD, rows({label: means(part, found) for label, part in parts.items()}))
        if name == "batch":
            made["budget"] = table(HEAD, rows(budget(found)))
    return made


def main(
    data: Annotated[Path, typer.Option(help=f"folder with {PROFILES}")],
    seeds: Annotated[int | None, typer.Option(min=2, help="at most so many seeds of each setting")] = None,
) -> None:
    """Print the tables."""
    for name, made in tables(data, seeds).items():
        typer.echo(f"{name}\n{made}\n")


if __name__ == "__main__":
    end(lambda: typer.run(main))
