"""Images in folders and in zips: which there are, what their names say, and their bytes."""

from __future__ import annotations

import os
import posixpath
import zipfile
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from reid_vpr_eval.errors import FormatError, InputNotFoundError
from reid_vpr_eval.formats.names import check_names, parse_names
from reid_vpr_eval.formats.registry import FOLDER, Content, SideName, parsing, reader
from reid_vpr_eval.formats.spec import SideSpec

if TYPE_CHECKING:
    from reid_vpr_eval.formats.sides import Side

__all__ = ["IMAGE_SUFFIXES", "image_bytes", "open_image", "plain_name", "read_folder", "read_zip"]

#: The suffixes of files that are taken for images, in any case.
IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp", ".ppm")

_JUNK_FOLDERS = ("__MACOSX",)


@reader("folder of images", suffixes=(FOLDER,))
def read_folder(path: Path, side: SideName, spec: SideSpec) -> Content:  # noqa: ARG001
    """Read the names of all images in a folder and below, sorted.

    The folder is the side's own, or the data set's with the side's folder in it. Hidden
    files and what archivers leave behind are skipped.
    """
    root = path
    if spec.folder is not None and (path / spec.folder).is_dir():
        root = path / spec.folder
    return _content(root, sorted(_walk(root)), spec)


@reader("zip of images", suffixes=(".zip",), signature=(b"PK\x03\x04", b"PK\x05\x06"))
def read_zip(path: Path, side: SideName, spec: SideSpec) -> Content:  # noqa: ARG001
    """Read the names of all images in a zip, which is not unpacked.

    The side's folder is looked for at the top of the zip and in its only top folder.
    """
    with parsing(path, "a zip"), zipfile.ZipFile(path) as archive:
        listed = sorted({info.filename for info in archive.infolist() if not info.is_dir()})
    names = [name for name in listed if _is_image(name) and _is_safe(name)]
    prefix = _prefix(names, spec.folder)
    below = [name.removeprefix(prefix) for name in names if name.startswith(prefix)]
    return _content(path / prefix if prefix else path, below, spec)


def _content(root: Path, names: list[str], spec: SideSpec) -> Content:
    if not names:
        raise FormatError(
            f"{root}: holds no image ({', '.join(IMAGE_SUFFIXES)}), neither directly nor in the "
            "folders below"
        )
    _check_text(root, names)
    columns: dict[str, Any] = {"path": names}
    if spec.names is not None:
        fields, unmatched = parse_names(names, spec.names)
        check_names(names, unmatched, spec.names)
        columns |= fields
    return Content(columns=columns, root=root, origin="files")


def _walk(root: Path) -> Iterator[str]:
    """Yield the images below a folder; linked folders are followed, each at most once."""
    seen = {os.path.realpath(root)}
    for folder, below, files in os.walk(root, followlinks=True):
        keep = []
        for name in sorted(below):
            real = os.path.realpath(os.path.join(folder, name))
            if not _is_junk(name) and real not in seen:
                seen.add(real)
                keep.append(name)
        below[:] = keep
        start = Path(folder).relative_to(root).as_posix()
        for name in files:
            if _is_image(name):
                yield name if start == "." else f"{start}/{name}"


def _check_text(root: Path, names: list[str]) -> None:
    try:
        "\0".join(names).encode()
    except UnicodeEncodeError as error:
        bad = next(repr(name) for name in names if not name.isprintable())
        raise FormatError(f"{root}: the name {bad} is not UTF-8; rename it") from error


def _is_junk(part: str) -> bool:
    return part.startswith(".") or part in _JUNK_FOLDERS


def _is_image(name: str) -> bool:
    if any(_is_junk(part) for part in name.split("/")):
        return False
    return PurePosixPath(name).suffix.lower() in IMAGE_SUFFIXES


def _is_safe(name: str) -> bool:
    return not (name.startswith("/") or "\\" in name or ":" in name or ".." in name.split("/"))


def _prefix(names: Iterable[str], folder: str | None) -> str:
    if folder is None:
        return ""
    wanted = plain_name(folder).strip("/") + "/"
    tops = {name.split("/", 1)[0] for name in names}
    starts = [wanted] + ([f"{next(iter(tops))}/{wanted}"] if len(tops) == 1 else [])
    return next((start for start in starts if any(n.startswith(start) for n in names)), "")


def plain_name(name: str) -> str:
    """Return a relative name without ``./`` and doubled slashes.

    >>> plain_name("./a//b.jpg")
    'a/b.jpg'
    """
    return posixpath.normpath(name)


def image_bytes(root: str | os.PathLike[str], path: str) -> bytes:
    """Return the bytes of one image.

    Parameters
    ----------
    root : path
        A folder, a zip, or a folder inside a zip (``data.zip/query``).
    path : str
        The image's path below it, as in the column ``path``.

    Raises
    ------
    InputNotFoundError
        If there is no such image.
    FormatError
        If it cannot be read.
    """
    full = Path(root).expanduser() / path
    if full.is_file():
        try:
            return full.read_bytes()
        except OSError as error:
            raise FormatError(f"{full}: cannot be read ({error.strerror})") from error
    container = next((one for one in full.parents if one.is_file()), None)
    if container is None:
        raise InputNotFoundError(f"{full}: no such image")
    entry = plain_name(full.relative_to(container).as_posix())
    state = container.stat()
    with parsing(container, "a zip"):
        archive = _archive(str(container), state.st_mtime_ns, state.st_size)
        try:
            return archive.read(entry)
        except KeyError as error:
            raise InputNotFoundError(f"{container}: holds no image {entry!r}") from error


@lru_cache(maxsize=4)
def _archive(path: str, changed_ns: int, size: int) -> zipfile.ZipFile:  # noqa: ARG001
    """Keep a few zips open: reading the list of a large one for every image is slow."""
    return zipfile.ZipFile(path)


def open_image(side: Side, row: int) -> bytes:
    """Return the bytes of the image of one row of a side.

    Raises
    ------
    FormatError
        If the side has no images.
    """
    if side.root is None or "path" not in side.samples:
        raise FormatError(
            f"{side.source}: its images are not known; name a folder or a zip of images, or a "
            "table or list beside them"
        )
    return image_bytes(side.root, str(side.samples.values("path")[row]))
