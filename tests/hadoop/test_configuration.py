"""Properties: later over earlier, final, variables, and every mistake with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from rm_emulator.hadoop.configuration import Configuration
from rm_emulator.issues import Issues, TraceError

from .conftest import xml


def read(tmp_path: Path, *texts: str) -> Configuration:
    conf = Configuration(Issues())
    for number, text in enumerate(texts):
        path = tmp_path / f"{number}.xml"
        path.write_text(text)
        conf.read(path)
    return conf


def said(conf: Configuration) -> str:
    with pytest.raises(TraceError) as raised:
        conf.issues.check()
    return str(raised.value)


def test_a_later_file_wins(tmp_path: Path) -> None:
    assert read(tmp_path, xml({"a": "1"}), xml({"a": "2"})).text("a", "") == "2"


def test_a_final_value_stays_and_the_other_is_noted(tmp_path: Path) -> None:
    final = "<configuration><property><name>a</name><value>1</value><final>true</final></property></configuration>"
    conf = read(tmp_path, final, xml({"a": "2"}))
    assert conf.text("a", "") == "1"
    assert conf.notes == ["a is final in 0.xml:1: the value in 1.xml:2 has no effect"]


def test_properties_may_be_attributes(tmp_path: Path) -> None:
    assert read(tmp_path, '<configuration><property name="a" value=" 1 "/></configuration>').text("a", "") == "1"


def test_variables_stand_for_other_properties(tmp_path: Path) -> None:
    assert read(tmp_path, xml({"a": "${b}${c}", "b": "1", "c": "${d}", "d": "2"})).text("a", "") == "12"


def test_an_unknown_variable_is_a_mistake(tmp_path: Path) -> None:
    conf = read(tmp_path, xml({"a": "x${user.home}"}))
    assert conf.text("a", "default") == "default"
    assert "0.xml:2: a: 'x${user.home}' refers to ${user.home}, which no file sets" in said(conf)


def test_variables_in_a_circle_are_a_mistake(tmp_path: Path) -> None:
    conf = read(tmp_path, xml({"a": "${b}", "b": "${a}"}))
    conf.text("a", "")
    assert "refers to itself" in said(conf)


def test_a_wrong_number_names_line_value_and_range(tmp_path: Path) -> None:
    conf = read(tmp_path, xml({"a": "4O"}))
    assert conf.whole("a", 7, most=100) == 7
    assert said(conf).endswith("0.xml:2: a: '4O' is not accepted (expected a whole number from 0 to 100)")


@pytest.mark.parametrize("text", ["nan", "inf", "-1", "101", "1e999"])
def test_numbers_outside_the_range_are_mistakes(tmp_path: Path, text: str) -> None:
    conf = read(tmp_path, xml({"a": text}))
    conf.number("a", 1, least=0, most=100)
    assert "expected a number from 0 to 100" in said(conf)


def test_a_flag_is_true_or_false(tmp_path: Path) -> None:
    conf = read(tmp_path, xml({"a": "TRUE", "b": "ture"}))
    assert conf.flag("a", False)
    assert not conf.flag("b", False)
    assert "expected true or false), did you mean 'true'?" in said(conf)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<allocations/>", "the root element is <allocations> (expected <configuration>)"),
        ("<configuration><propety/></configuration>", "<propety>: unknown element"),
        ("<configuration><property><value>1</value></property></configuration>", "a <property> without a <name>"),
        ("<configuration><property><nmae>a</nmae></property></configuration>", "did you mean 'name'?"),
        ('<configuration xmlns:xi="x"><xi:include href="y"/></configuration>', "files are not included"),
    ],
)
def test_mistakes_of_form(tmp_path: Path, text: str, message: str) -> None:
    assert message in said(read(tmp_path, text))


def test_mistakes_of_several_files_come_together(tmp_path: Path) -> None:
    assert said(read(tmp_path, "<a/>", "<b/>")).count("expected <configuration>") == 2
