"""HDF5 files of ann-benchmarks: train, test, neighbors and distances."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import FormatError, ReidVprEvalError, name_some
from reid_vpr_eval.formats.extras import need
from reid_vpr_eval.formats.registry import Content, SideName, reader
from reid_vpr_eval.formats.spec import SideSpec

__all__ = ["read_datasets", "read_hdf5"]

_SIDES = {"query": "test", "gallery": "train"}


@reader("HDF5 file", suffixes=(".hdf5", ".h5"), signature=b"\x89HDF")
def read_hdf5(path: Path, side: SideName, spec: SideSpec) -> Content:  # noqa: ARG001
    """Read the vectors of one side: ``test`` are the queries, ``train`` the gallery."""
    name = _SIDES[side]
    (vectors,) = read_datasets(path, [name])
    if vectors is None or vectors.ndim != 2:
        raise FormatError(f"{path}: the dataset {name!r} is no matrix of vectors (n, d)")
    return Content(columns={"row": np.arange(len(vectors))}, features=vectors, sided=True)


def read_datasets(path: Path, names: list[str]) -> list[npt.NDArray[Any] | None]:
    """Return datasets by name; None for those that are absent, but for the first.

    Raises
    ------
    FormatError
        If the file is damaged, or has no dataset of the first name.
    """
    h5py = need("h5py", "hdf5", path)
    try:
        with h5py.File(path, "r") as file:
            have = sorted(str(name) for name in file)
            if names[0] not in have:
                raise FormatError(
                    f"{path}: no dataset {names[0]!r}; it has {name_some(have, 12) or 'none'}"
                )
            return [np.asarray(file[name]) if name in have else None for name in names]
    except ReidVprEvalError:
        raise
    except (OSError, ValueError, RuntimeError, KeyError, TypeError) as error:
        raise FormatError(f"{path}: cannot be read as an HDF5 file ({error})") from error
