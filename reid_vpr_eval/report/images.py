"""Where pictures come from: the sides as they were read, or folders named later."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from reid_vpr_eval.errors import InputNotFoundError
from reid_vpr_eval.formats import Side, open_image
from reid_vpr_eval.formats.images import image_bytes
from reid_vpr_eval.result import Result
from reid_vpr_eval.tables import read_table

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["PATHS", "Images", "image_paths", "images_of_run"]

#: The file of a run folder that says which image belongs to a name that is not its path.
PATHS = "pictures.csv"


@dataclass(frozen=True, slots=True, eq=False)
class Images:
    """Where the images of both sides come from.

    Parameters
    ----------
    query, gallery : callable
        Gives the bytes of an image file, by the name that the item has in the tables of a
        result: its id, else its path, else its row. Raises anything where there is none.
    """

    query: Callable[[str], bytes]
    gallery: Callable[[str], bytes]

    @classmethod
    def of_sides(cls, query: Side, gallery: Side) -> Images:
        """Take the images of two sides as they were read for the evaluation."""
        return cls(_by_name(query), _by_name(gallery))

    @classmethod
    def of_folders(
        cls,
        query: str | os.PathLike[str],
        gallery: str | os.PathLike[str] | None = None,
        paths: Mapping[tuple[str, str], str] | None = None,
    ) -> Images:
        """Look images up in folders (or zips), the gallery in the same one if none is named.

        Parameters
        ----------
        query, gallery : path
            A name is looked for below it: as a path, as the end of a path, or as the name
            of one file alone.
        paths : mapping, optional
            By side and name the path of an image that is called otherwise.
        """
        known = paths or {}
        return cls(
            _Folder(Path(query), "query", known).load,
            _Folder(Path(query if gallery is None else gallery), "gallery", known).load,
        )


def _by_name(side: Side) -> Callable[[str], bytes]:
    names = side.samples.names
    rows = None if names is None else {str(name): row for row, name in enumerate(names.tolist())}
    return lambda name: open_image(side, int(name) if rows is None else rows[name])


@dataclass(eq=False)
class _Folder:
    """Images below a folder, found by names that need not be whole paths."""

    root: Path
    side: str
    paths: Mapping[tuple[str, str], str]

    def load(self, name: str) -> bytes:
        """Return the bytes of an image, the first of the ways to read its name that finds one."""
        given = self.paths.get((self.side, name))
        parts = PurePosixPath(given if given is not None else name).parts
        for start in range(len(parts)):
            try:
                return image_bytes(self.root, "/".join(parts[start:]).replace("//", "/"))
            except InputNotFoundError:
                continue
        found = self.files.get(parts[-1] if parts else name)
        if found is None:
            raise InputNotFoundError(f"{self.root}: holds no image {name!r}")
        return found.read_bytes()

    @cached_property
    def files(self) -> dict[str, Path]:
        """The files below the folder, by bare name where only one is called so."""
        found: dict[str, Path | None] = {}
        for folder, _, names in os.walk(self.root):
            for name in names:
                found[name] = None if name in found else Path(folder) / name
        return {name: path for name, path in found.items() if path is not None}


def image_paths(query: Side, gallery: Side, result: Result) -> pd.DataFrame | None:
    """Return the paths of the images that lists show, where names do not end like them.

    Columns side, id, path; None if every name is a path by itself.
    """
    import pandas as pd

    rows = []
    for side, one, shown in (
        ("query", query, {str(name) for name in result.per_query["query_id"].tolist()}),
        ("gallery", gallery, _listed(result)),
    ):
        names = one.samples.names
        called = range(one.samples.n) if names is None else names.tolist()
        for name, path in zip(called, one.samples.values("path").tolist(), strict=True):
            if str(name) in shown and not f"/{name}".endswith(f"/{path}"):
                rows.append((side, str(name), str(path)))
    return pd.DataFrame(rows, columns=["side", "id", "path"]) if rows else None


def _listed(result: Result) -> set[str]:
    """Return the names of the gallery items that picture lists may show."""
    tables = [table["item_id"] for table in (result.rankings, result.beside) if table is not None]
    tables.append(result.per_query["best_positive_id"].dropna())
    return {str(name) for table in tables for name in table.tolist()}


def images_of_run(
    folder: Path, result: Result, query: Path | None = None, gallery: Path | None = None
) -> tuple[Images | None, str]:
    """Return where the images of a saved run are, and what keeps them from being shown.

    Folders that are named win over those that the run remembers.
    """
    stored = result.environment.get("images") or {}
    named = (query or gallery or stored.get("query"), gallery or query or stored.get("gallery"))
    roots = [Path(str(root)) for root in named if root is not None]
    if len(roots) < len(named):
        return None, (
            "the run does not say where its images are: name them with --images-query and "
            "--images-gallery"
        )
    absent = [str(root) for root in roots if not _is_there(root)]
    if absent:
        return None, (
            f"no such folder of images: {', '.join(dict.fromkeys(absent))}; name where they are "
            "now with --images-query and --images-gallery"
        )
    paths = folder / PATHS
    known = {}
    if paths.is_file():
        table = read_table(paths).astype(str)
        known = {(side, name): path for side, name, path in table.itertuples(index=False)}
    return Images.of_folders(roots[0], roots[1], known), ""


def _is_there(root: Path) -> bool:
    """Whether a folder, a zip, or a folder inside a zip is there."""
    return root.exists() or any(parent.is_file() for parent in root.parents)
