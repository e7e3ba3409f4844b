"""The rendered world as files: people in one folder, a town in another."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.archive import write_atomically
from reid_vpr_eval.demo.drawing import png
from reid_vpr_eval.demo.people import PeopleRenderer, plan_people
from reid_vpr_eval.demo.streets import plan_places
from reid_vpr_eval.demo.views import PlacesRenderer
from reid_vpr_eval.errors import FormatError, name_some

__all__ = ["World", "render_world"]


@dataclass(frozen=True, slots=True)
class World:
    """Where the pictures of a rendered world are, and how many there are.

    Parameters
    ----------
    people_query, people_gallery : Path
        Walking figures with names as in Market-1501: label, camera, sequence, frame.
    places_query, places_gallery : Path
        Street views whose names give east and north in metres, the heading and more.
    n_people_query, n_people_gallery, n_places_query, n_places_gallery : int
        The number of pictures in each folder.
    """

    people_query: Path
    people_gallery: Path
    places_query: Path
    places_gallery: Path
    n_people_query: int
    n_people_gallery: int
    n_places_query: int
    n_places_gallery: int


def render_world(
    out: str | os.PathLike[str],
    *,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> World:
    """Render a small world with known ground truth, the same bytes for the same seed.

    Thirty people walk past five cameras, among strangers and bad crops; five streets of a
    town are photographed by day, and again at other hours and angles.

    Parameters
    ----------
    out : path
        The folder to fill: ``people`` and ``places`` are made in it. Pictures of the same
        names are written again.
    seed : int, default 0
        Not negative. Another seed makes other people and another town.
    progress : callable, optional
        Called with the number of pictures done and their total.

    Raises
    ------
    FormatError
        If the seed is negative, or a folder holds files that are not of this world: they
        would be taken for a part of it.

    Examples
    --------
    >>> world = render_world("world", seed=3)  # doctest: +SKIP
    >>> world.n_people_query, world.n_places_query  # doctest: +SKIP
    (107, 80)
    """
    if seed < 0:
        raise FormatError(f"the seed of a world is {seed}: it must not be negative")
    people, places = plan_people(seed), plan_places(seed)
    root = Path(out)
    targets = [root / "people" / seen.folder / seen.name for seen in people]
    targets += [root / "places" / view.folder / view.name for view in places]
    _refuse_strangers(targets)
    watch, travel = PeopleRenderer(seed), PlacesRenderer(seed)
    for number, target in enumerate(targets):
        pixels: npt.NDArray[np.uint8] = (
            watch.render(people[number])
            if number < len(people)
            else travel.render(places[number - len(people)])
        )
        write_atomically(target, png(pixels))
        if progress is not None:
            progress(number + 1, len(targets))
    return _world_of(root, targets)


def _world_of(root: Path, targets: list[Path]) -> World:
    folders = (
        root / "people" / "query",
        root / "people" / "bounding_box_test",
        root / "places" / "images" / "test" / "queries",
        root / "places" / "images" / "test" / "database",
    )
    held = Counter(target.parent for target in targets)
    counts = [held[folder] for folder in folders]
    return World(*folders, *counts)


def _refuse_strangers(targets: list[Path]) -> None:
    """Refuse a folder whose other files would be read as pictures of this world."""
    planned = set(targets)
    for folder in dict.fromkeys(target.parent for target in targets):
        others = sorted(
            path.name
            for path in (folder.iterdir() if folder.is_dir() else ())
            if path not in planned and not path.name.startswith(".")
        )
        if others:
            raise FormatError(
                f"{folder}: holds files that are not of this world ({name_some(others, 2)}); "
                "choose another folder, or remove this one"
            )
