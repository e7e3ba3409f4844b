"""Tables: comma- and tab-separated text, and Parquet through an extra."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reid_vpr_eval.errors import FormatError, counted, name_some
from reid_vpr_eval.formats.extras import need
from reid_vpr_eval.formats.registry import Content, SideName, parsing, reader
from reid_vpr_eval.formats.spec import SideSpec

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["read_csv", "read_parquet", "read_tsv"]

#: Cells that mean "no value". Words such as NA or None are kept as text.
_EMPTY = ("", "nan", "NaN")
_INDEX_NAMES = ("", "Unnamed: 0")


@reader("comma-separated table", suffixes=(".csv",))
def read_csv(path: Path, side: SideName, spec: SideSpec) -> Content:  # noqa: ARG001
    """Read a table with a line of column names.

    A column of digits is integers, also with leading zeros (0002 is 2) and also where
    cells are empty. A first column without a name is an index and is left out.
    """
    return _read_text(path, ",")


@reader("tab-separated table", suffixes=(".tsv",))
def read_tsv(path: Path, side: SideName, spec: SideSpec) -> Content:  # noqa: ARG001
    """Read a tab-separated table, otherwise as the comma-separated one."""
    return _read_text(path, "\t")


@reader("Parquet table", suffixes=(".parquet", ".pq"), signature=b"PAR1")
def read_parquet(path: Path, side: SideName, spec: SideSpec) -> Content:  # noqa: ARG001
    """Read a Parquet table, which needs the extra ``parquet``."""
    need("pyarrow", "parquet", path)
    import pandas as pd

    with parsing(path, "a Parquet table"):
        table = pd.read_parquet(path, dtype_backend="numpy_nullable")
    return _content(path, table, [str(name) for name in table.columns])


def _read_text(path: Path, separator: str) -> Content:
    import pandas as pd

    header, n_rows = _structure(path, separator)
    with parsing(path, "a table"):
        table = pd.read_csv(
            path,
            sep=separator,
            header=0,
            names=header,
            index_col=False,
            dtype_backend="numpy_nullable",
            keep_default_na=False,
            na_values=list(_EMPTY),
            skipinitialspace=True,
            encoding="utf-8-sig",
            low_memory=False,
        )
    if len(table) != n_rows:
        raise FormatError(
            f"{path}: {counted(n_rows, 'line was', 'lines were')} read as "
            f"{counted(len(table), 'row')}: look for stray quotation marks"
        )
    return _content(path, table, header)


def _structure(path: Path, separator: str) -> tuple[list[str], int]:
    """Check that a table has distinct column names and one cell a column in every line."""
    n_rows = 0
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            lines = csv.reader(stream, delimiter=separator, skipinitialspace=True, strict=True)
            header = [name.strip() for name in next(filter(None, lines), [])]
            _check_header(path, header, separator)
            for cells in lines:
                if cells and len(cells) != len(header):
                    raise FormatError(
                        f"{path}: line {lines.line_num} has {counted(len(cells), 'cell')}, but "
                        f"there are {counted(len(header), 'column')} ({name_some(header)}); mend "
                        "this line"
                    )
                n_rows += bool(cells)
    except UnicodeDecodeError as error:
        raise FormatError(
            f"{path}: is not UTF-8 text (byte {error.start}); save the table as UTF-8"
        ) from error
    except csv.Error as error:
        raise FormatError(
            f"{path}: line {lines.line_num}: {error}; look for a quotation mark that is not closed"
        ) from error
    if not n_rows:
        raise FormatError(f"{path}: has column names ({name_some(header)}) but no rows")
    return header, n_rows


def _check_header(path: Path, header: list[str], separator: str) -> None:
    if not header:
        raise FormatError(f"{path}: is empty; a table begins with a line of column names")
    twice = sorted({name for name in header if name and header.count(name) > 1})
    if twice:
        raise FormatError(f"{path}: the column name {twice[0]!r} occurs more than once: rename one")
    unnamed = [number for number, name in enumerate(header) if not name and number]
    if unnamed:
        raise FormatError(f"{path}: column {unnamed[0] + 1} has no name in the first line")
    other = next((mark for mark in (";", "\t", ",") if mark != separator and mark in header[0]), "")
    if len(header) == 1 and other:
        raise FormatError(
            f"{path}: has one column, {header[0]!r}: it seems to be separated by {other!r}, not by "
            f"{separator!r}; save it as comma-separated .csv or tab-separated .tsv"
        )


def _content(path: Path, table: pd.DataFrame, header: list[str]) -> Content:
    if not len(table):
        raise FormatError(f"{path}: has no rows")
    names = [name for place, name in enumerate(header) if place or name not in _INDEX_NAMES]
    if not names:
        raise FormatError(f"{path}: has no column with a name")
    return Content(columns={name: _column(table[name]) for name in names})


def _column(series: pd.Series[Any]) -> Any:
    """Return a column that is to stay of its kind where cells are empty."""
    lost = series.isna()
    if not lost.any():
        return series
    return [None if gone else v for v, gone in zip(series.tolist(), lost.tolist(), strict=True)]
