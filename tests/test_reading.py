"""A user's file: read whole, or refused with one line that names it."""

import os
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from blocks.errors import UnusableInput
from blocks.reading import checked, nearest, read_json, read_text, read_toml
from blocks.values import Amount, Number
from tests.examples import examples


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")

    width: Amount = Decimal(1)


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    inner: Inner = Inner()
    parts: dict[str, Inner] = {}
    rows: tuple[Inner, ...] = ()
    first: Number = Decimal(0)
    second: Number = Decimal(0)
    third: Number = Decimal(0)


def written(folder: Path, content: str | bytes, name: str = "file.json") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def complaint(path: Path) -> str:
    """Return what is said of a JSON file: one line that begins with its path."""
    with pytest.raises(UnusableInput) as caught:
        read_json(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    assert 1 == len(text.splitlines())
    return text.removeprefix(f"{path}: ")


def test_numbers_in_json_keep_every_digit(tmp_path: Path) -> None:
    path = written(tmp_path, '{"price": 11.50, "many": 0.1234567890123456789, "count": 3, "odd": NaN}')
    content = read_json(path)

    assert ["11.50", "0.1234567890123456789", "3", "NaN"] == [str(value) for value in content.values()]
    assert all(isinstance(value, Decimal) for value in content.values())


def test_numbers_can_be_kept_as_the_text_they_are(tmp_path: Path) -> None:
    path = written(tmp_path, '{"price": 11.50, "count": 3, "odd": -Infinity}')

    assert {"price": "11.50", "count": 3, "odd": "-Infinity"} == read_json(path, real=str, whole=int)


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    assert {"a": "é"} == read_json(written(tmp_path, '\ufeff{"a": "é"}'))
    assert {"a": 1} == read_toml(written(tmp_path, "\ufeffa = 1", "file.toml"))


def test_numbers_in_toml_keep_every_digit(tmp_path: Path) -> None:
    content = read_toml(written(tmp_path, "price = 11.50\nodd = nan\nmany = 1_000.5\ncount = 3", "file.toml"))

    assert ["11.50", "NaN", "1000.5", "3"] == [str(value) for value in content.values()]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "the file is empty"),
        (" \n\t", "the file is empty"),
        ("\ufeff", "the file is empty"),
        (b"\xff\xfe{\0}\0", "not a text file (UTF-8 is needed)"),
        (b"PAR1\x00\x9c\x80", "not a text file (UTF-8 is needed)"),
        ("\0\0\0", "not JSON that can be used: Expecting value: line 1 column 1 (char 0)"),
        ("{", "not JSON that can be used: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ('{"a": 1} x', "not JSON that can be used: Extra data: line 1 column 10 (char 9)"),
        ('{"a": 1, "b": 2, "a": 3}', "not JSON that can be used: the key 'a' stands twice in one object"),
        ('{"b": [{"a": 1, "a": 1}]}', "not JSON that can be used: the key 'a' stands twice in one object"),
        ("[1, 2]", "should hold one JSON object, holds list"),
        ('"text"', "should hold one JSON object, holds str"),
        ("null", "should hold one JSON object, holds NoneType"),
        ("[" * 100_000, "nested too deeply to be read"),
        ('{"a":' * 100_000, "nested too deeply to be read"),
    ],
)
def test_a_file_that_is_no_json_object_is_refused(tmp_path: Path, content: str | bytes, said: str) -> None:
    assert said == complaint(written(tmp_path, content))


def test_an_exponent_beyond_all_bounds_is_refused(tmp_path: Path) -> None:
    assert "not JSON that can be used" in complaint(written(tmp_path, '{"a": 1e' + "9" * 30 + "}"))


def test_a_path_that_leads_to_no_file_is_refused(tmp_path: Path) -> None:
    assert "no such file" == complaint(tmp_path / "nothing.json")
    assert "a folder, not a file" == complaint(tmp_path)
    assert "cannot be read: [Errno 20] Not a directory" in complaint(written(tmp_path, "{}") / "below")
    assert "File name too long" in complaint(tmp_path / ("x" * 300))
    assert "cannot be read: embedded null byte" == complaint(tmp_path / "a\0b")


def test_a_file_of_any_size_is_read_no_further_than_is_sensible() -> None:
    with pytest.raises(UnusableInput, match=r"^/dev/zero: larger than 64 MiB$"):
        read_text(Path("/dev/zero"))


def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=('{"a": "b"}',))
    writer.start()
    content = read_json(pipe)
    writer.join()

    assert {"a": "b"} == content


@pytest.mark.parametrize(
    "content", ["a = ", "a = 1\na = 2", "[a]\n[a]", "a = 2026-02-30", "= 1", "{}", "a = 'x", "a = " + "[" * 5000]
)
def test_a_file_that_is_no_toml_is_refused(tmp_path: Path, content: str) -> None:
    path = written(tmp_path, content, "file.toml")

    with pytest.raises(UnusableInput) as caught:
        read_toml(path)

    assert str(caught.value).startswith(f"{path}: not TOML that can be used: ")


@examples(200)
@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_whatever_a_file_holds_it_is_read_or_refused(tmp_path: Path, content: bytes) -> None:
    path = written(tmp_path, content)
    for read in (read_json, read_toml):
        try:
            found = read(path)
        except UnusableInput as error:
            found = {"refused": str(error)}

        assert isinstance(found, dict)


# What a model says of a user's content


def said_of(content: dict[str, Any]) -> str:
    with pytest.raises(UnusableInput) as caught:
        checked(Outer, content, "here")
    return str(caught.value)


def test_content_that_fits_becomes_the_model() -> None:
    outer = checked(Outer, {"name": "a", "inner": {"width": "2.50"}}, "here")

    assert Decimal("2.50") == outer.inner.width


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({}, "here: name: missing, and it has no default"),
        ({"name": 5}, "here: name: 5: should be text"),
        (
            {"name": "a", "iner": {}},
            "here: iner: unknown key (did you mean 'inner'?); allowed: name, inner, parts, rows, first, second, third",
        ),
        (
            {"name": "a", "inner": {"widht": 1}},
            "here: inner.widht: unknown key (did you mean 'width'?); allowed: width",
        ),
        ({"name": "a", "parts": {"x": {"zzz": 1}}}, "here: parts.x.zzz: unknown key; allowed: width"),
        ({"name": "a", "rows": [{}, {"width": -1}]}, "here: rows.1.width: -1: should be zero or more"),
        ({"name": "a", "inner": 3}, "here: inner: 3: should be a table or instance of Inner"),
        ({"name": "a", "inner": {"width": Decimal("NaN")}}, "here: inner.width: NaN: should be a finite number"),
        (
            {"first": "x", "second": [], "third": None, "name": 1},
            (
                "here: name: 1: should be text; first: 'x': should be a number, or a number in quotes; "
                "second: []: should be a number, or a number in quotes; and 1 more"
            ),
        ),
    ],
)
def test_a_fault_is_told_with_key_value_and_what_is_allowed(content: dict[str, Any], said: str) -> None:
    assert said == said_of(content)


def test_a_long_value_is_cut_short() -> None:
    text = said_of({"name": "a", "first": "9" * 500 + "x"})

    assert len(text) < 200
    assert "..." in text


@pytest.mark.parametrize("depth", [100, 900, 980, 2000, 100_000])
def test_content_nested_at_any_depth_is_refused_in_a_line(depth: int) -> None:
    nested: list[Any] = []
    for _ in range(depth):
        nested = [nested]

    assert 1 == len(said_of({"name": nested}).splitlines())


@pytest.mark.parametrize(("word", "hint"), [("weigths", " (did you mean 'weights'?)"), ("xyz", ""), ("", "")])
def test_the_nearest_word_is_offered_if_it_is_near(word: str, hint: str) -> None:
    assert hint == nearest(word, ["weights", "method"])
