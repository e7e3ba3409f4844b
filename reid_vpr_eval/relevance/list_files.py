"""Files with lists of pairs: JSON, CSV, NumPy, text, TREC judgements, or a folder of lists."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from reid_vpr_eval.errors import FormatError, RelevanceError
from reid_vpr_eval.formats.arrays import load_array
from reid_vpr_eval.formats.registry import existing, located, parsing
from reid_vpr_eval.formats.trec import read_qrels
from reid_vpr_eval.formats.vectors import read_vectors
from reid_vpr_eval.relevance.lists import POSITIVE_LIST, Lists, as_lists, joined

__all__ = ["read_lists"]

_CSV_COLUMNS = "query, item and, if you like, list and grade"


def read_lists(path: str | os.PathLike[str], names: Sequence[str] = ()) -> Lists:
    """Read lists of pairs from a file, or from a folder with one file a list.

    ========================  =====================================================
    .json                     what :func:`listed` takes from Python
    .csv, .tsv                columns query, item and, if you like, list and grade
    .npy                      positions (n_query, K), -1 where a list ends, or a matrix
                              of True and False
    .ivecs                    positions, one vector a query
    .txt, .lst                one line a query: its items, separated by blanks or commas
    .qrels, qrels.*, .trec    TREC judgements
    a folder                  for each of `names` the file of this stem, of any kind above
    ========================  =====================================================

    Raises
    ------
    InputNotFoundError
        If there is no such file.
    FormatError, RelevanceError
        If it cannot be read as lists; says where.
    """
    source = existing(Path(path).expanduser(), "lists of pairs")
    if source.is_dir():
        return _read_folder(source, names)
    suffix = source.suffix.lower()
    if source.name.lower().startswith("qrels") or suffix in (".qrels", ".trec"):
        return as_lists(read_qrels(source))
    if suffix not in _READERS:
        raise FormatError(
            f"{source}: lists of pairs are read from {', '.join(_READERS)}, from TREC judgements "
            "(.qrels) and from folders with one file a list"
        )
    with located(source):
        return _READERS[suffix](source)


def _read_folder(folder: Path, names: Sequence[str]) -> Lists:
    parts: dict[str, Lists] = {}
    for name in names:
        files = [one for one in sorted(folder.iterdir())
                 if one.stem == name and one.suffix.lower() in _READERS]  # fmt: skip
        if len(files) > 1:
            listed = ", ".join(one.name for one in files)
            raise FormatError(f"{folder}: {listed} are all called {name!r}: keep one of them")
        if files:
            parts[name] = read_lists(files[0])
    if not parts:
        raise FormatError(
            f"{folder}: holds no file called {' or '.join(names) or 'by a name of a list'} "
            f"({', '.join(_READERS)})"
        )
    return joined(parts)


def _read_json(path: Path) -> Lists:
    with parsing(path, "JSON"):
        content = json.loads(_text(path))
    if isinstance(content, Mapping) and isinstance(content.get("gnd"), list):
        content = content["gnd"]
    return as_lists(content)


def _read_npy(path: Path) -> Lists:
    return as_lists(np.asarray(load_array(path)))


def _read_ivecs(path: Path) -> Lists:
    return as_lists(np.asarray(read_vectors(path)))


def _read_text(path: Path) -> Lists:
    lines = _text(path).split("\n")
    if lines and not lines[-1].strip():
        lines.pop()
    rows = [line.replace(",", " ").split() for line in lines]
    return as_lists([_whole(row) for row in rows])


def _read_csv(path: Path, delimiter: str = ",") -> Lists:
    table = csv.DictReader(_text(path).splitlines(), delimiter=delimiter)
    columns = [str(name).strip() for name in table.fieldnames or ()]
    table.fieldnames = columns
    if not {"query", "item"} <= set(columns):
        raise FormatError(
            f"{path}: has the columns {', '.join(columns) or 'none'}; {_CSV_COLUMNS} are needed"
        )
    query: list[str] = []
    item: list[str] = []
    name: list[str] = []
    grade: list[float] = []
    for number, row in enumerate(table, start=2):
        if not row["query"] or not row["item"] or None in row:
            raise FormatError(f"{path}: line {number} is not one value each of {_CSV_COLUMNS}")
        query.append(row["query"].strip())
        item.append(row["item"].strip())
        name.append((row.get("list") or POSITIVE_LIST).strip())
        grade.append(_grade(path, number, row.get("grade")))
    names = tuple(dict.fromkeys(name))
    place = {one: number for number, one in enumerate(names)}
    return Lists(
        query=_column(query), item=_column(item), grade=np.array(grade, np.float64), names=names,
        name=np.array([place[one] for one in name], np.int64), queries=_column(query),
    )  # fmt: skip


def _read_tsv(path: Path) -> Lists:
    return _read_csv(path, "\t")


def _grade(path: Path, number: int, text: str | None) -> float:
    if text is None:
        return 1.0
    try:
        grade = float(text)
    except ValueError:
        grade = math.nan
    if not math.isfinite(grade):
        raise FormatError(f"{path}: line {number} has the grade {text!r}: a number is needed")
    return grade


def _column(values: list[str]) -> Any:
    return np.array(values, np.str_) if values else np.empty(0, np.int64)


def _whole(words: Iterable[str]) -> list[int | str]:
    """Return words that are whole numbers as such."""
    return [int(w) if w.removeprefix("-").isdecimal() and w.isascii() and w == str(int(w)) else w
            for w in words]  # fmt: skip


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(
            f"{path}: is not UTF-8 text (byte {error.start}); save it as UTF-8"
        ) from error
    except OSError as error:
        raise RelevanceError(f"{path}: cannot be read ({error.strerror})") from error


_READERS: Mapping[str, Callable[[Path], Lists]] = {
    ".json": _read_json, ".csv": _read_csv, ".tsv": _read_tsv, ".npy": _read_npy,
    ".ivecs": _read_ivecs, ".txt": _read_text, ".lst": _read_text,
}  # fmt: skip
