"""The page of results on architectures: Sparrow's ways to choose workers, and Omega's rivals.

python -m studies.architectures --docs docs
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rm_emulator.files import write_file
from rm_emulator.program import end
from studies import omega, sparrow
from studies.tables import filled


def main(
    docs: Annotated[Path, typer.Option(help="folder whose results-architectures.in.md is to become a page")] = Path(
        "docs"
    ),
) -> None:
    """Measure everything and write the page: five minutes on one core."""
    template = (docs / "results-architectures.in.md").read_text(encoding="utf-8")
    write_file(docs / "results-architectures.md", filled(template, **omega.tables(), **sparrow.tables()))


if __name__ == "__main__":
    end(lambda: typer.run(main))
