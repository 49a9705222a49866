"""The count of words that `make lint` holds: what counts as a docstring, as a pronoun and as a comment."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import words
from tests.words import MAX_PROSE, MAX_ROWS, ROOT, Count, count, glossary, mistakes, pages, prose, total


def test_words_of_modules_functions_and_attributes_count() -> None:
    module, attribute = '"""One word here."""\n\n', 'x = 1\n"""Its doc, a string below an attribute."""\n'
    text = module + attribute + 'def f():\n    """That too."""\n'
    assert count(text)[:2] == (12, 2)


def test_code_in_backticks_is_no_prose() -> None:
    assert count('"""Calls `it.that(this)` twice."""\n')[:2] == (2, 0)


def test_comments_that_a_program_reads_do_not_count() -> None:
    assert count("x = 1  # noqa: E1\ny = 2  # because\n# type: ignore\n").comments == 1


def test_a_string_that_is_a_value_is_no_docstring() -> None:
    assert count('x = "it and that"\n').words == 0


def test_totals_are_of_one_folder() -> None:
    counts = {"a/x.py": Count(10, 1, 2, 20), "a/y.py": Count(5, 2, 0, 10), "b/z.py": Count(9, 9, 9, 9)}
    assert total(counts, "a/") == (15, 3, 2, 30)


def test_a_module_above_the_limit_is_named_with_its_share() -> None:
    counts = {"operators/extender/x.py": Count(1000, 80, 9, 10), "schedulers/core/y.py": Count(9000, 0, 9, 10)}
    counts["rm_emulator/engine/z.py"] = Count(0, 0, 9, 10)
    (line,) = [line for line in mistakes(counts) if line.startswith("operators/extender/x.py")]
    assert "8.0 %" in line.replace("%", " %")


def test_pages_that_are_generated_do_not_count_but_their_templates_do() -> None:
    names = {page.relative_to(ROOT).as_posix() for page in pages()}
    assert names >= {"README.md", "CHANGELOG.md", "docs/results.in.md", "docs/results-soak.md", "docs/design.md"}
    assert not names & {"docs/results.md", "docs/scenario.md"}


def test_code_is_no_prose_of_a_page() -> None:
    assert prose("# A title\n\n```sh\nrm-emulator run demo\n```\n\nTwo words.\n") == 5


def test_a_glossary_explains_no_word_twice_whatever_stands_beside_it() -> None:
    text = "| word | meaning |\n| --- | --- |\n| idle, late | A. |\n| late (of a job) | B. |\n| size | C. |\n"
    assert list(glossary(text)) == ["the glossary explains late twice: one meaning for one word"]


def test_a_glossary_has_a_limit() -> None:
    text = "".join(f"| word {n} | A meaning. |\n" for n in range(MAX_ROWS + 1))
    (line,) = glossary(text)
    assert line.startswith("the glossary has 121 rows")


def test_pages_above_the_limit_are_told_with_their_words(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {f"{package}/x.py": Count(10, 0, 9, 10) for package in words.EXPLAINED}
    monkeypatch.setattr(words, "page_words", lambda: {Path("a.md"): MAX_PROSE, Path("b.md"): 1})
    assert "pages have 60,001 words; at most 60,000 are accepted" in list(mistakes(counts))
    monkeypatch.setattr(words, "page_words", lambda: {Path("a.md"): MAX_PROSE})
    assert not [line for line in mistakes(counts) if line.startswith("pages")]
