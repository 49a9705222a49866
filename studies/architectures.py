"""The page of results on architectures: Omega and its rivals, its MapReduce scheduler, and Mesos.

python -m studies.architectures --docs docs

Runs are kept under OUT; docs/results-architectures.md is written from its template.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from rm_emulator.files import write_file
from rm_emulator.program import end
from studies import mapreduce, mesos, omega
from studies.tables import filled

#: The shorter first.
STUDIES: Final = {"mapreduce": mapreduce, "mesos": mesos, "omega": omega}


def main(
    out: Annotated[Path, typer.Option(help="where the runs are kept")] = Path("out/architectures"),
    docs: Annotated[Path, typer.Option(help="the folder with results-architectures.in.md")] = Path("docs"),
    seeds: Annotated[int, typer.Option(min=1, help="number of seeds")] = 10,
    jobs: Annotated[int, typer.Option(min=1, help="parallel processes")] = 2,
) -> None:
    """Run everything, and write docs/results-architectures.md: three quarters of an hour on one core."""
    template = (docs / "results-architectures.in.md").read_text(encoding="utf-8")
    made = {name: each.tables(out / name, seeds, jobs) for name, each in STUDIES.items()}
    write_file(docs / "results-architectures.md", filled(template, seeds=seeds, **made))


if __name__ == "__main__":
    end(lambda: typer.run(main))
