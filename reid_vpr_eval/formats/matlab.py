"""MATLAB files: features and labels of both sides, as common re-identification code saves them."""

from __future__ import annotations

from pathlib import Path

from reid_vpr_eval.errors import FormatError, name_some
from reid_vpr_eval.formats.arrays import (
    Array,
    check_lengths,
    columns_of_side,
    flattened,
    split_features,
)
from reid_vpr_eval.formats.registry import Content, SideName, parsing, reader
from reid_vpr_eval.formats.spec import SideSpec

__all__ = ["load_mat", "read_mat"]

_HDF5_TEXT = b"MATLAB 7.3"
#: Kinds of fields that are no arrays of numbers, and are not even looked at.
_NOT_NUMBERS = ("cell", "struct", "object", "function", "opaque", "char", "sparse", "unknown")


@reader("MATLAB result", suffixes=(".mat",), signature=(b"MATLAB", b"\x89HDF"))
def read_mat(path: Path, side: SideName, spec: SideSpec) -> Content:  # noqa: ARG001
    """Read ``query_f``, ``query_label``, ``query_cam``, ``gallery_f`` ... by field name.

    Labels and cameras may be row vectors; every other vector of the side is a column too.
    """
    arrays, sided = load_mat(path, side)
    features, columns = split_features(path, arrays)
    check_lengths(path, columns, features)
    return Content(columns=columns, features=features, sided=sided)


def load_mat(path: Path, side: SideName | None) -> tuple[dict[str, Array], bool]:
    """Read the fields of a MATLAB file that concern a side, under their plain names."""
    with path.open("rb") as stream:
        head = stream.read(len(_HDF5_TEXT))
    if head.startswith((_HDF5_TEXT, b"\x89HDF")):
        raise FormatError(
            f"{path}: is a MATLAB file of version 7.3 (HDF5), which is not read here; save it "
            "again with the option '-v7'"
        )
    import scipy.io

    with parsing(path, "a MATLAB file"):
        names = [name for name, _, kind in scipy.io.whosmat(path) if kind not in _NOT_NUMBERS]
        wanted, sided = columns_of_side(path, names, side)
        if not sided and "features" not in names:
            raise FormatError(
                f"{path}: has no field query_f, query_label, gallery_f or gallery_label; its "
                f"fields are {name_some(names, limit=12) or 'none'}"
            )
        stored = scipy.io.loadmat(path, variable_names=list(wanted))
        arrays = {plain: stored[name] for name, plain in wanted.items()}
    plain = {name: array for name, array in arrays.items() if array.dtype.kind in "iufb"}
    n = len(plain["features"]) if "features" in plain else None
    kept = {name: flattened(name, one) for name, one in plain.items() if one.size > 1 or n == 1}
    return kept, sided
