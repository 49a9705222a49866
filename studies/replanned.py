"""What the policy `replan` attains by the time that it has for a search, beside the rules.

    python -m studies.replanned --data DIR

Decima's batch by default, where the policy knows the measured run times of all queries, and not the draws of the run.
With `--setting recurring` all is learned from ended jobs. A run is kept, so a stopped study goes on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Final

import typer

from rm_emulator import api
from rm_emulator.files import write_file
from rm_emulator.program import end
from studies.learned_settings import PROFILES, SETTINGS, Setting
from studies.tables import document, over_seeds, table

HEAD: Final = ("policy", "seeds", "mean JCT, s", "beside capped_sjf, %")
#: The rule that re-planning begins with, and what all are held against.
BEGIN: Final = "curves"
#: The same with learned constants.
LEARNED: Final = "curves_learned"
BASELINE: Final = "capped_sjf"
#: Settings of measured TPC-H jobs on equal executors, by name.
KNOWN: Final[Mapping[str, Setting]] = {
    each.name: each for each in SETTINGS if each.name in ("batch", "stream", "recurring")
}


def policies(setting: Setting, budgets: str, candidates: str) -> dict[str, Mapping[str, Any]]:
    """Policies by label: rules, and re-planning by budgets (ms) and by numbers of candidates, both by commas.

    By budgets re-planning also begins with LEARNED, where the setting has this rule. All are told run times; in a
    setting of recurring jobs all learn run times from history.
    """
    history = "_history" if f"{BEGIN}_history" in setting.rules else ""
    found = {label: setting.rules[label + history] for label in (BASELINE, BEGIN)}
    told = {"kind": "replan", "predictor": found[BEGIN].get("predictor", {"kind": "oracle"})}
    for budget in filter(None, budgets.split(",")):
        found[f"replan, {budget} ms"] = {**told, "budget_ms": float(budget), "candidates": 10_000}
    if learned := {label: rule for label, rule in setting.rules.items() if label == LEARNED}:
        found |= learned
        for budget in filter(None, budgets.split(",")):
            label = f"replan from {LEARNED}, {budget} ms"
            found[label] = {**told, "learned": True, "budget_ms": float(budget), "candidates": 10_000}
    for count in filter(None, candidates.split(",")):
        found[f"replan, {count} candidates"] = {**told, "budget_ms": None, "candidates": int(count)}
    return found


def mean_jct_s(setting: Setting, policy: Mapping[str, Any], data: Path, seed: int) -> float:
    """Mean JCT of a run, s."""
    workload = {**setting.workload, "profiles": str((data / PROFILES).resolve())}
    told = {"predictor": {"kind": "oracle"}, **policy}
    jobs = api.play(document(setting.name, [seed], {"one": told}, cluster=setting.cluster, workload=workload)).jobs
    return fmean(jobs["finish_ms"] - jobs["submit_ms"]) / 1000


def rows(jcts: Mapping[str, Mapping[int, float]]) -> list[list[str]]:
    """Cells of HEAD; differences are paired with `capped_sjf`, by seed, with 95 % intervals."""
    base, made = jcts[BASELINE], []
    for label, ran in jcts.items():
        off = [100 * (jct / base[seed] - 1) for seed, jct in ran.items()]
        beside = "" if label == BASELINE else over_seeds(off, 1)
        made.append([label, str(len(ran)), f"{fmean(ran.values()):.1f}", beside])
    return made


def main(
    data: Annotated[Path, typer.Option(help=f"folder with {PROFILES}")],
    out: Annotated[Path, typer.Option(help="where finished runs are kept")] = Path("out/replanned"),
    setting: Annotated[str, typer.Option(help=f"one of {', '.join(KNOWN)}")] = "batch",
    jobs: Annotated[int, typer.Option(min=0, help="jobs of a run, 0: as in the setting")] = 0,
    seeds: Annotated[int, typer.Option(min=2, help="number of seeds, from 1000")] = 4,
    budgets: Annotated[str, typer.Option(help="CPU time of a search, ms, separated by commas")] = "50,500",
    candidates: Annotated[str, typer.Option(help="rules tried at each search, separated by commas")] = "30,100",
) -> None:
    """Run what has not run yet, and print the table."""
    if setting not in KNOWN:
        raise typer.BadParameter(f"there is no setting '{setting}' (settings: {', '.join(KNOWN)})")
    of = KNOWN[setting]
    if jobs:
        of = of._replace(workload={**of.workload, "jobs": jobs})
    out.mkdir(parents=True, exist_ok=True)
    jcts: dict[str, dict[int, float]] = {}
    for label, policy in policies(of, budgets, candidates).items():
        jcts[label] = ran = {}
        for seed in range(1000, 1000 + seeds):
            kept = out / f"{setting}{jobs or ''}-{label.replace(', ', '-').replace(' ', '-')}-{seed}.json"
            if not kept.exists():
                write_file(kept, json.dumps(mean_jct_s(of, policy, data, seed)))
                typer.echo(f"{label}, seed {seed}: {json.loads(kept.read_bytes()):.2f} s", err=True)
            ran[seed] = json.loads(kept.read_bytes())
    typer.echo(table(HEAD, rows(jcts)))


if __name__ == "__main__":
    end(lambda: typer.run(main))
