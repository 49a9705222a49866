"""The site: `make docs` builds it from the pages of this folder and from those that `docs/generated.py` writes."""

import sys
from pathlib import Path
from typing import Any

from pygments.lexers.special import TextLexer
from sphinx.highlighting import lexers

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS.parent), str(DOCS)]

import generated  # noqa: E402 (found by the path above)

from schedulers.core import events, live, policy, reasons  # noqa: E402

# Types that two modules name for type checking alone: autodoc evaluates each annotation of a struct.
events.JobState, policy.Reason = live.JobState, reasons.Reason  # type: ignore[attr-defined]

lexers["csv"] = TextLexer()

project = "rm-emulator"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
html_theme = "furo"
html_title = "rm-emulator"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_copyright = False
exclude_patterns = ["**.in.md"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
nitpicky = True
autodoc_member_order = "bysource"
autodoc_typehints = "none"
# Docstrings name code in single backticks, as Markdown does.
default_role = "code"
# Types of other libraries have no page here, and the build asks no network for theirs.
nitpick_ignore_regex = [("py:.*", r"(collections|pathlib|typing|msgspec|polars|numpy|T|Any|enum)\b.*")]


def setup(app: Any) -> None:
    """Sphinx calls this function first: the generated pages are written before any page is read."""
    generated.write(DOCS / "reference")
    app.connect("autodoc-process-docstring", _blocks)


def _blocks(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Mark indented lines as code: reStructuredText wants a sign before a block of code."""
    text: list[str] = []
    for line in lines:
        if (
            line.startswith("    ")
            and line.strip()
            and not (text and text[-1].startswith("    "))
            and not _in_code(text)
        ):
            text += ["", "::", ""]
        elif text and text[-1].startswith("    ") and line and not line.startswith(" "):
            text.append("")
        text.append(line)
    lines[:] = text


def _in_code(text: list[str]) -> bool:
    """True if the last line that is not empty is part of a block of code."""
    return next((line.startswith("    ") for line in reversed(text) if line), False)
