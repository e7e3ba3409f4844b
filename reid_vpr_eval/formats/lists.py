"""Text lists of image names, one a line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from reid_vpr_eval.errors import FormatError, counted
from reid_vpr_eval.formats.images import IMAGE_SUFFIXES, plain_name
from reid_vpr_eval.formats.names import check_names, parse_names
from reid_vpr_eval.formats.registry import Content, SideName, reader
from reid_vpr_eval.formats.spec import SideSpec

__all__ = ["read_list"]

_ENDS = "|".join(suffix[1:] for suffix in IMAGE_SUFFIXES)
#: A name with an image's suffix may hold spaces; what follows it is the label.
_IMAGE_LINE = re.compile(rf"(.*?\.(?:{_ENDS}))(?:\s+(.*))?", re.IGNORECASE)
_WHOLE = re.compile(r"-?\d{1,18}")


@reader("list of names", suffixes=(".txt", ".lst"))
def read_list(path: Path, side: SideName, spec: SideSpec) -> Content:  # noqa: ARG001
    """Read one name a line, with an optional second column, the label.

    Blank lines and lines that begin with ``#`` are skipped. Where the names' own grammar
    gives the label, it counts, and the second column is kept as ``listed_label``.
    """
    names, labels = _entries(path)
    columns: dict[str, Any] = {"path": names}
    if spec.names is not None:
        fields, unmatched = parse_names(names, spec.names)
        check_names(names, unmatched, spec.names)
        columns |= fields
    if labels is not None:
        whole = all(_WHOLE.fullmatch(label) for label in labels)
        values = [int(label) for label in labels] if whole else labels
        columns["listed_label" if "label" in columns else "label"] = values
    return Content(columns=columns, root=_root(path, spec, names[0]), origin="list")


def _entries(path: Path) -> tuple[list[str], list[str] | None]:
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise FormatError(
            f"{path}: is not UTF-8 text (byte {error.start}); save the list as UTF-8"
        ) from error
    names: list[str] = []
    labels: list[str] = []
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        name, rest = _split(text)
        if len(rest) > 1:
            raise FormatError(
                f"{path}: line {number} has {counted(1 + len(rest), 'column')}; a list holds one "
                "name a line and, if you like, its label"
            )
        if rest and _IMAGE_LINE.fullmatch(rest[0]):
            raise FormatError(
                f"{path}: line {number} names two images; a list of pairs does not say whose "
                "samples they are: give one list a side"
            )
        names.append(plain_name(name))
        labels += rest
        if labels and len(labels) != len(names):
            raise FormatError(
                f"{path}: line {number} has {'a' if rest else 'no'} label, unlike the lines before "
                "it; give all of them one, or none"
            )
    if not names:
        raise FormatError(f"{path}: holds no name; a list has one name a line")
    return names, labels or None


def _split(text: str) -> tuple[str, list[str]]:
    found = _IMAGE_LINE.fullmatch(text)
    if found:
        return found[1], (found[2] or "").split()
    name, *rest = text.split()
    return name, rest


def _root(path: Path, spec: SideSpec, first: str) -> Path | None:
    """Return the folder in which the listed images are, if they are there at all."""
    folders = [path.parent] if spec.folder is None else [path.parent / spec.folder, path.parent]
    return next((folder for folder in folders if (folder / first).is_file()), None)
