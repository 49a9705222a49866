"""XML with lines, without document types."""

from __future__ import annotations

from pathlib import Path

import pytest

from rm_emulator.hadoop.xml import MAX_DEPTH, read_xml
from rm_emulator.issues import TraceError


def write(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "x.xml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def said(path: Path) -> str:
    with pytest.raises(TraceError) as raised:
        read_xml(path)
    return str(raised.value)


def test_elements_know_their_lines(tmp_path: Path) -> None:
    root = read_xml(write(tmp_path, "<a>\n <b/>\n\n <c x='1'> t </c>\n</a>"))
    assert [(e.tag, e.line, e.text, e.attributes) for e in root.children] == [
        ("b", 2, "", {}),
        ("c", 4, "t", {"x": "1"}),
    ]


def test_a_document_type_is_refused_with_its_line(tmp_path: Path) -> None:
    bomb = '<?xml version="1.0"?>\n<!DOCTYPE a [<!ENTITY x "xx"><!ENTITY y "&x;&x;">]>\n<a>&y;</a>'
    assert "x.xml:2: declares a document type (<!DOCTYPE a>)" in said(write(tmp_path, bomb))


def test_an_external_entity_is_refused(tmp_path: Path) -> None:
    assert "declares a document type" in said(
        write(tmp_path, '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/hostname">]><a>&x;</a>')
    )


def test_an_unknown_entity_is_a_message_with_the_line(tmp_path: Path) -> None:
    assert "x.xml:2: not XML: undefined entity" in said(write(tmp_path, "<a>\n&x;</a>"))


def test_the_five_entities_of_xml_are_read(tmp_path: Path) -> None:
    assert read_xml(write(tmp_path, "<a>&lt;&amp;&#65;</a>")).text == "<&A"


def test_an_element_that_is_not_closed_names_the_line(tmp_path: Path) -> None:
    assert "x.xml:3: not XML: mismatched tag" in said(write(tmp_path, "<a>\n<b>\n</a>"))


def test_deep_nesting_is_refused(tmp_path: Path) -> None:
    assert "nested deeper" in said(write(tmp_path, "<a>" * (MAX_DEPTH + 1)))


def test_an_unknown_encoding_is_a_message(tmp_path: Path) -> None:
    assert "not XML" in said(write(tmp_path, '<?xml version="1.0" encoding="klingon"?><a/>'))


@pytest.mark.parametrize("text", [b"", b"\0\0\0", b"words", b"<a>", b"<a/><b/>", b"\xff\xfe<"])
def test_what_is_not_xml_is_a_message(tmp_path: Path, text: bytes) -> None:
    assert "x.xml" in said(write(tmp_path, text))
