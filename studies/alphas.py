"""The exponent of weighted fair sharing for each setting, and one for all: searched on seeds that no table shows.

    python -m studies.alphas --data DIR

The fast simulator plays the engine's runs, so the search takes a minute or two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Annotated, Final

import typer

from rm_emulator.program import end
from studies.learned_settings import PROFILES
from studies.parts import Part, means, settings
from studies.tables import table

#: Settings with executors that outlive tasks; see `learned_settings`.
SEARCHED: Final = ("batch", "batch-mended", "stream", "stream-mended", "stream-45", "stream-20", "large")
ALPHAS: Final = (-2.0, -1.6, -1.4, -1.2, -1.1, -1.0, -0.8, -0.6, -0.4, -0.2, 0.0, 0.2, 0.4)
FIRST: Final = 5000
HEAD: Final = ("alpha", *SEARCHED, "mean part above the best, %")


def jcts(name: str, data: Path, seeds: int) -> dict[float, float]:
    """Mean JCT by exponent, s."""
    found = settings(name, data, seeds, FIRST)
    return {alpha: fmean(means(Part({"kind": "weighted_fair", "alpha": alpha}), found)) for alpha in ALPHAS}


def rows(by_setting: Mapping[str, Mapping[float, float]]) -> list[list[str]]:
    """Cells of HEAD: a row for each exponent."""
    best = {name: min(by_alpha.values()) for name, by_alpha in by_setting.items()}
    made = []
    for alpha in ALPHAS:
        jcts = {name: by_alpha[alpha] for name, by_alpha in by_setting.items()}
        above = 100 * (fmean(jct / best[name] for name, jct in jcts.items()) - 1)
        made.append([f"{alpha:g}", *(f"{jct:.1f}" for jct in jcts.values()), f"{above:.1f}"])
    return made


def main(
    data: Annotated[Path, typer.Option(help=f"folder with {PROFILES}")],
    seeds: Annotated[int, typer.Option(min=2, help=f"seeds of each setting, from {FIRST}")] = 20,
) -> None:
    """Print mean JCTs in s by exponent and setting."""
    made: Sequence[list[str]] = rows({name: jcts(name, data, seeds) for name in SEARCHED})
    typer.echo(table(HEAD, made))


if __name__ == "__main__":
    end(lambda: typer.run(main))
