"""Lists of what plugs in as text: policies, predictors, placers, profiles, charts, trace formats."""

from __future__ import annotations

import sys
from typing import Any

from rich.console import Console
from rich.text import Text


def show(entries: list[dict[str, Any]], among: str = "") -> None:
    """Prints what each entry of a list is, with its settings. among: text before an example in a scenario."""
    console = Console(file=sys.stdout, highlight=False, soft_wrap=True)
    for entry in entries:
        console.print(Text.assemble((entry["name"], "bold"), "  ", entry["summary"]))
        for line in entry.get("description", "").splitlines():
            console.print(Text(f"    {line}" if line else ""))
        console.print(Text(f"    {entry['source']}", style="dim"))
        for column in entry.get("columns", ()):
            needed = "" if column["required"] else " (optional)"
            console.print(Text(f"    column {column['name']}{needed}: {column['meaning']}"))
        for fact, assumed in entry.get("lacks", {}).items():
            console.print(Text(f"    lacks {fact}: {assumed}"))
        for setting in entry["parameters"]:
            default = setting["default"]
            shown = "" if default is None else f" = {str(default).lower() if isinstance(default, bool) else default}"
            console.print(Text(f"    {setting['name']}{shown}  ({setting['type']}) {setting['description']}"))
        if "example" in entry:
            console.print(Text(f"    in a scenario:\n{among}{entry['example']}"))
