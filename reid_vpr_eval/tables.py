"""Tables and documents of a run folder: the same bytes out, the same types back in."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reid_vpr_eval.errors import FormatError, InputNotFoundError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["csv_bytes", "json_bytes", "read_json", "read_table", "records"]


def json_bytes(content: object) -> bytes:
    """Return a document as JSON: sorted keys, no NaN, one value a line."""
    text = json.dumps(content, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False)
    return (text + "\n").encode()


def csv_bytes(table: pd.DataFrame) -> bytes:
    """Return a table as CSV, numbers at full precision."""
    stream = StringIO()
    table.to_csv(stream, index=False, lineterminator="\n")
    return stream.getvalue().encode()


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object of a run folder."""
    if not path.is_file():
        folder = path.parent
        why = f"it holds no {path.name}" if folder.is_dir() else "there is no such folder"
        raise InputNotFoundError(f"{folder} is no run folder: {why}")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise FormatError(f"{path} is damaged: {error}") from None
    if not isinstance(content, dict):
        raise FormatError(f"{path} is damaged: an object is expected")
    return content


def read_table(path: Path) -> pd.DataFrame:
    """Read a CSV table of a run folder; each column gets the type that writes back the same."""
    import pandas as pd

    if not path.is_file():
        raise InputNotFoundError(f"{path}: this file of the run is missing")
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
    except (ValueError, pd.errors.ParserError) as error:
        raise FormatError(f"{path} is damaged: {error}") from None
    return pd.DataFrame({name: _typed(table[name].tolist()) for name in table.columns})


def _typed(texts: list[str]) -> list[Any]:
    """Give a column of texts the type that writes back to the same texts."""
    for kind in (_whole, _number, _truth):
        values = [kind(text) for text in texts]
        if all(value is not _NOT for value in values):
            return values
    return texts


_NOT: Any = object()


def _whole(text: str) -> Any:
    plain = text.removeprefix("-").isdecimal() and text.isascii()
    return int(text) if plain and str(int(text)) == text else _NOT


def _number(text: str) -> Any:
    if not text:
        return float("nan")
    try:
        return float(text) if repr(float(text)) == text else _NOT
    except ValueError:
        return _NOT


def _truth(text: str) -> Any:
    return {"True": True, "False": False}.get(text, _NOT)


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a table as JSON values at full precision, null where there is none."""
    columns = {name: table[name].tolist() for name in table.columns}
    return [
        {name: None if value != value else value for name, value in zip(columns, row, strict=True)}
        for row in zip(*columns.values(), strict=True)
    ]
