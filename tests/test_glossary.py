"""The glossary: every word has a meaning, and lives where it is said to live."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (DOCS / "glossary.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith(("| word |", "| ---"))
]
#: Words of which newcomers ask.
WORDS = (
    "fact decision offer heartbeat beat cycle tick profile container executor pilot size fitting room queue account"
    " limit journal cursor hold share deficit bundle plan troublesome wave ledger release gate term takeover cell label"
    " baseline gang brain scenario reservation backfill wish architecture JCT"
)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_word_lives_where_the_glossary_says(row: list[str]) -> None:
    word, meaning, elsewhere, where = row
    assert word
    assert meaning.endswith((".", ")"))
    assert elsewhere
    files = [(DOCS / target).resolve() for target in re.findall(r"\]\(([^)]+)\)", where)]
    assert files
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    for name in re.findall(r"`([^`]+)`", where):
        assert re.search(rf"\b{re.escape(name)}\b", text), f"{name} is not in {files}"


def test_no_word_is_explained_twice() -> None:
    words = [row[0] for row in ROWS]
    assert len(set(words)) == len(words)


@pytest.mark.parametrize("word", [*WORDS.split(), "wait reason", "waves of durations"])
def test_the_words_of_the_code_are_explained(word: str) -> None:
    assert any(re.match(rf"(.*, )?{word}( \(|,|$)", row[0]) for row in ROWS)
