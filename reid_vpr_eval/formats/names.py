"""What the name of an image says: grammars of names, and the columns they give."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from reid_vpr_eval.columns import NUMBER_COLUMNS, canonical_column
from reid_vpr_eval.errors import FormatError, ProtocolError, counted, name_some

__all__ = [
    "GRAMMARS",
    "Grammar",
    "Value",
    "check_names",
    "compile_grammar",
    "parse_name",
    "parse_names",
]

Value: TypeAlias = int | float | str
Fields: TypeAlias = dict[str, Value]

_WHOLE = re.compile(r"-?\d{1,18}")
_SUFFIX = re.compile(r"\.[A-Za-z]{3,4}$")
_WORD = re.compile(r"[\w-]+")


@dataclass(frozen=True, slots=True)
class Grammar:
    """A way to write what is known of an image into its name.

    Parameters
    ----------
    name : str
        The word that a protocol file uses.
    pattern : str
        How a name is written, for people.
    example : str
        A name that fits.
    columns : tuple of str
        The columns that every name gives; others may be missing.
    read : function of str
        From a name to its fields, or None if it does not fit.
    """

    name: str
    pattern: str
    example: str
    columns: tuple[str, ...]
    read: Callable[[str], Fields | None]


def _whole_numbers(expression: str) -> Callable[[str], Fields | None]:
    """Read the named groups of an expression in the file's own name, as integers."""
    compiled = re.compile(expression)

    def read(name: str) -> Fields | None:
        found = compiled.search(_own_name(name))
        if found is None:
            return None
        return {key: int(text) for key, text in found.groupdict().items() if text is not None}

    return read


def _own_name(path: str) -> str:
    return path.replace("\\", "/").rsplit("/", 1)[-1]


#: Fields of a place name after the first ``@``, and the column each becomes.
_PLACE_FIELDS = (
    "east",
    "north",
    "zone",
    "letter",
    "lat",
    "lon",
    "group",
    "tile",
    "heading",
    "pitch",
    "roll",
    "height",
    "time",
    "note",
)
_PLACE_NUMBERS = ("east", "north", "lat", "lon", "heading", "pitch", "roll", "height")
_ZONES = range(1, 61)


def _read_place(name: str) -> Fields | None:
    """Read ``@east@north@zone@letter@...@.jpg``; a field that is empty is missing."""
    parts = _SUFFIX.sub("", _own_name(name)).split("@")[1:]
    last = len(_PLACE_FIELDS) - 1
    if len(parts) > last + 1:
        parts = [*parts[:last], "@".join(parts[last:]).removesuffix("@")]
    raw = {key: text for key, text in zip(_PLACE_FIELDS, parts, strict=False) if text}
    if "east" not in raw or "north" not in raw:
        return None
    zone, letter = raw.pop("zone", ""), raw.pop("letter", "")
    fields: Fields = {key: text for key, text in raw.items() if key not in _PLACE_NUMBERS}
    for key in _PLACE_NUMBERS:
        if key in raw:
            number = _number(raw[key])
            if number is None:
                return None
            fields[key] = number
    if zone or letter:
        if not zone.isdecimal() or int(zone) not in _ZONES or len(letter) > 1:
            return None
        fields["zone"] = f"{int(zone)}{letter.upper()}"
    return fields


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    plain = math.isfinite(number) and "_" not in text
    return number if plain else None


#: The named grammars. A protocol may give a regular expression instead.
GRAMMARS: Mapping[str, Grammar] = MappingProxyType(
    {
        one.name: one
        for one in (
            Grammar(
                "market",
                "LABEL_cCAMERA, then sSEQUENCE_FRAME; label -1 is junk, 0000 a distractor",
                "0002_c1s1_000451_03.jpg",
                ("label", "camera"),
                _whole_numbers(
                    r"(?P<label>-?\d+)_c(?P<camera>\d)(?!\d)"
                    r"(?:s(?P<sequence>\d+)_(?P<frame>\d+))?"
                ),
            ),
            Grammar(
                "duke",
                "LABEL_cCAMERA_fFRAME",
                "0001_c2_f0046182.jpg",
                ("label", "camera"),
                _whole_numbers(r"(?P<label>-?\d+)_c(?P<camera>\d)(?!\d)(?:_f(?P<frame>\d+))?"),
            ),
            Grammar(
                "veri",
                "LABEL_cCAMERA, with three digits of camera",
                "0002_c002_00030600_0.jpg",
                ("label", "camera"),
                _whole_numbers(r"(?P<label>\d+)_c(?P<camera>\d{3})(?!\d)"),
            ),
            Grammar(
                "msmt",
                "LABEL_x_CAMERA_..., the first and the third field",
                "0000_000_01_0303morning_0015_0.jpg",
                ("label", "camera"),
                _whole_numbers(r"^(?P<label>\d+)_[^_]*_(?P<camera>\d+)(?=[_.])"),
            ),
            Grammar(
                "utm",
                "@east@north@zone@letter@lat@lon@pano@tile@heading@pitch@roll@height@timestamp"
                "@note@.jpg, of which the first two are required",
                "@0545981.19@4184971.70@10@S@037.81098@-122.47762@pano@@174@@@@201409@@.jpg",
                ("east", "north"),
                _read_place,
            ),
        )
    }
)


def compile_grammar(grammar: str) -> Grammar:
    """Return a named grammar, or the one that a regular expression stands for.

    Its named groups give text as yet: whether a column is of integers depends on all of it.

    Raises
    ------
    ProtocolError
        If it is neither a known name nor a regular expression with named groups.
    """
    if grammar in GRAMMARS:
        return GRAMMARS[grammar]
    if _WORD.fullmatch(grammar):
        raise ProtocolError(
            f"unknown grammar of names {grammar!r}; known: {', '.join(GRAMMARS)}; or give a "
            r"regular expression with named groups, such as (?P<label>\d+)_c(?P<camera>\d+)"
        )
    try:
        compiled = re.compile(grammar)
    except re.error as error:
        raise ProtocolError(
            f"names = {grammar!r} is no regular expression ({error}); escape special characters "
            "with a backslash, and write it in single quotes in TOML"
        ) from error
    if not compiled.groupindex:
        raise ProtocolError(
            f"names = {grammar!r} has no named group, so it gives no column; name what it finds, "
            r"for example (?P<label>\d+) and (?P<camera>\d+)"
        )
    if any(canonical_column(group) == "path" for group in compiled.groupindex):
        raise ProtocolError(
            f"names = {grammar!r} has a group for the path, but that is the name itself: call it "
            "something else"
        )

    def read(name: str) -> Fields | None:
        found = compiled.search(name)
        return None if found is None else {k: v for k, v in found.groupdict().items() if v}

    return Grammar(grammar, "a regular expression", "", tuple(compiled.groupindex), read)


def parse_name(name: str, grammar: str) -> dict[str, Value]:
    """Read one name.

    Parameters
    ----------
    name : str
        The path of the image below the side's folder. Named grammars look at the last
        part only, a regular expression at the whole path.
    grammar : str
        One of :data:`GRAMMARS`, or a regular expression with named groups.

    Raises
    ------
    FormatError
        If the name does not fit.
    ProtocolError
        If the grammar is unknown.

    Examples
    --------
    >>> parse_name("query/0002_c1s1_000451_03.jpg", "market")
    {'label': 2, 'camera': 1, 'sequence': 1, 'frame': 451}
    >>> parse_name("me@lab/@548.5@90.25@17@T@@@@@@@@@@@.jpg", "utm")
    {'east': 548.5, 'north': 90.25, 'zone': '17T'}
    >>> parse_name("cats/07.jpg", r"(?P<label>[a-z]+)/(?P<camera>[0-9]+)")
    {'label': 'cats', 'camera': 7}
    """
    columns, unmatched = parse_names([name], grammar)
    check_names([name], unmatched, grammar)
    return {key: values[0] for key, values in columns.items() if values[0] is not None}


def parse_names(
    names: Sequence[str], grammar: str
) -> tuple[dict[str, list[Value | None]], list[int]]:
    """Read many names: the columns they give, and the rows that do not fit.

    A named group whose every value is digits gives integers, any other one strings;
    positions and headings give numbers. What a name does not hold is None.
    """
    chosen = compile_grammar(grammar)
    rows = [chosen.read(name) for name in names]
    keys = dict.fromkeys([*chosen.columns, *(key for row in rows if row for key in row)])
    columns = {key: [row.get(key) if row else None for row in rows] for key in keys}
    if chosen.name not in GRAMMARS:
        columns = {key: _typed(key, values) for key, values in columns.items()}
    return columns, [position for position, row in enumerate(rows) if row is None]


def check_names(names: Sequence[str], unmatched: Sequence[int], grammar: str) -> None:
    """Raise FormatError if a name did not fit, with the first few of them."""
    if not unmatched:
        return
    known = GRAMMARS.get(grammar)
    shape = f"({known.pattern}; for example {known.example})" if known else ""
    first = name_some([repr(names[row]) for row in unmatched], limit=3)
    of = f"of {counted(len(names), 'name')}"
    raise FormatError(
        f"{counted(len(unmatched), f'{of} does', f'{of} do')} not fit the grammar {grammar!r} "
        f"{shape}: {first}; rename or remove these files, or give the grammar that they follow"
    )


def _typed(key: str, values: list[Value | None]) -> list[Value | None]:
    present = [str(value) for value in values if value is not None]
    if canonical_column(key) in NUMBER_COLUMNS:
        bad = next((text for text in present if _number(text) is None), None)
        if bad is not None:
            raise FormatError(
                f"the group {key!r} of the names found {bad!r}, but it must be a number: mend the "
                "regular expression"
            )
        return [None if value is None else float(value) for value in values]
    if all(_WHOLE.fullmatch(text) for text in present):
        return [None if value is None else int(value) for value in values]
    return values
