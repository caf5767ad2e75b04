"""Read a user's file, and say in one line what is wrong with it."""

import difflib
import json
import tomllib
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from blocks.errors import UnusableInput

M = TypeVar("M", bound=BaseModel)

_TAGS = {"number", "bounds"}  # what pydantic puts into a path for the kinds of weight
_IN_PLAIN_WORDS = {
    "Input should": "should",
    "String should": "should",
    "a valid tuple": "a list",
    "a valid boolean": "true or false",
    "a valid dictionary": "a table",
    "a valid string": "text",
}
_LARGEST_FILE = 64 * 1024 * 1024


def nearest(word: str, words: Iterable[str]) -> str:
    """Return ` (did you mean 'x'?)` for a likely typo, else nothing."""
    close = difflib.get_close_matches(word, list(words), n=1, cutoff=0.6)
    return f" (did you mean {close[0]!r}?)" if close else ""


def read_text(path: Path) -> str:
    """Return a file's text. Raises UnusableInput where there is none to be had."""
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_FILE + 1)  # a pipe or a device does not say how much there is
        if len(content) > _LARGEST_FILE:
            raise UnusableInput(f"{path}: larger than {_LARGEST_FILE // 2**20} MiB")
        text = content.decode("utf-8-sig")
    except FileNotFoundError:
        raise UnusableInput(f"{path}: no such file") from None
    except IsADirectoryError:
        raise UnusableInput(f"{path}: a folder, not a file") from None
    except UnicodeDecodeError:
        raise UnusableInput(f"{path}: not a text file (UTF-8 is needed)") from None
    except (OSError, ValueError) as error:
        raise UnusableInput(f"{path}: cannot be read: {error}") from None
    if not text.strip():
        raise UnusableInput(f"{path}: the file is empty")
    return text


def _no_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    seen = dict(pairs)
    if len(seen) != len(pairs):
        twice = next(key for key, _ in pairs if sum(key == other for other, _ in pairs) > 1)
        raise ValueError(f"the key {twice!r} stands twice in one object")
    return seen


def read_json(
    path: Path, *, real: Callable[[str], Any] = Decimal, whole: Callable[[str], Any] = Decimal
) -> dict[str, Any]:
    """Return a file's JSON object, its numbers as Decimal unless told otherwise. Raises UnusableInput."""
    text = read_text(path)
    try:
        value = json.loads(text, parse_float=real, parse_int=whole, parse_constant=real, object_pairs_hook=_no_twice)
    except RecursionError:
        raise UnusableInput(f"{path}: nested too deeply to be read") from None
    except (ValueError, ArithmeticError) as error:
        raise UnusableInput(f"{path}: not JSON that can be used: {error}") from None
    if not isinstance(value, dict):
        raise UnusableInput(f"{path}: should hold one JSON object, holds {type(value).__name__}")
    return value


def read_toml(path: Path) -> dict[str, Any]:
    """Return a file's TOML table, its numbers as Decimal. Raises UnusableInput."""
    text = read_text(path)
    try:
        return tomllib.loads(text, parse_float=Decimal)
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise UnusableInput(f"{path}: not TOML that can be used: {error}") from None


def checked(model: type[M], value: Any, source: str) -> M:
    """Build a model from what a user wrote. Raises UnusableInput, whose text names key, value and what is allowed."""
    try:
        return _built(model, value, source)
    except RecursionError:
        raise UnusableInput(f"{source}: nested too deeply to be read") from None


def _built(model: type[M], value: Any, source: str) -> M:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise UnusableInput(f"{source}: {complaint(error, model)}") from None


def complaint(error: ValidationError, model: type[BaseModel]) -> str:
    """Say in one line what is wrong: up to three faults, each as `key: value: what is allowed`."""
    faults = error.errors(include_url=False)
    said = [_fault(fault, model) for fault in faults[:3]]
    more = f"; and {len(faults) - 3} more" if len(faults) > 3 else ""
    return "; ".join(said) + more


def _fault(fault: Any, model: type[BaseModel]) -> str:
    where = ".".join(str(part) for part in fault["loc"] if part not in _TAGS)
    if fault["type"] == "extra_forbidden":
        allowed = _keys_at(model, fault["loc"][:-1])
        hint = nearest(str(fault["loc"][-1]), allowed)
        return f"{where}: unknown key{hint}; allowed: {', '.join(allowed)}"
    if fault["type"] == "missing":
        return f"{where}: missing, and it has no default"
    what = fault["msg"].removeprefix("Value error, ")
    for theirs, ours in _IN_PLAIN_WORDS.items():
        what = what.replace(theirs, ours)
    if isinstance(fault["input"], Mapping):
        return f"{where}: {what}" if where else str(what)
    return f"{where}: {_short(fault['input'])}: {what}"


def _short(value: Any) -> str:
    text = str(value) if isinstance(value, Decimal) else repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _keys_at(model: type[BaseModel], loc: tuple[int | str, ...]) -> list[str]:
    """Return the keys allowed where a fault was found, by walking the models along its path."""
    here = model
    for part in loc:
        field = here.model_fields.get(str(part))
        if field is not None:
            here = _model_in(field.annotation) or here
    return list(here.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_in(part))), None)
