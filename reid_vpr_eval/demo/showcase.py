"""The demo: a rendered world, encoded, evaluated both ways, and its report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from reid_vpr_eval.archive import write_atomically
from reid_vpr_eval.demo.world import World, render_world
from reid_vpr_eval.protocol import ExpectedTable, Protocol, load_protocol
from reid_vpr_eval.report import Images, choose_queries, write_report
from reid_vpr_eval.report.figures import figure_bytes
from reid_vpr_eval.report.overview import overview
from reid_vpr_eval.report.pictures import Strips
from reid_vpr_eval.report.sweeps import gallery_sizes
from reid_vpr_eval.result import Result
from reid_vpr_eval.runs import Inputs, Progress, run

__all__ = ["Showcase", "show"]

_TOP = 10


@dataclass(frozen=True, slots=True, eq=False)
class Showcase:
    """What the demo leaves: results, run folders, the report that joins them, one figure.

    `results` and `folders` are people, the same people by another encoder, and places.
    """

    results: Sequence[Result]
    folders: Sequence[Path]
    report: Path
    figure: Path


def show(out: Path, *, seed: int = 0, progress: Progress | None = None) -> Showcase:
    """Render a small world below `out`, evaluate people and places in it, and report.

    Leaves ``world/`` (the images), ``people/``, ``people-thumbnail/`` and ``places/`` (run
    folders), ``report.html`` with ``figures/``, and ``overview.png``; the same bytes on
    every run, but for environment.json.
    """

    def stage(done: int, total: int) -> None:
        if progress is not None:
            progress("rendering", done, total)

    world = render_world(out / "world", seed=seed, progress=stage)
    results: list[Result] = []
    folders: list[Path] = []
    images: list[Images] = []
    for name, protocol, inputs in _evaluations(world):
        result, loaded = run(
            protocol, inputs, out=out / name, overwrite=True, progress=progress, report=False,
            top_k=_TOP, command="rve demo" + (f" --seed {seed}" if seed else ""),
        )  # fmt: skip
        results.append(result)
        folders.append(out / name)
        images.append(Images.of_sides(loaded.query, loaded.gallery))
    titles = [one.protocol.title for one in results]
    titles[1] += ", by thumbnails"
    page = write_report(results, out, images, names=titles)
    figure = out / "overview.png"
    write_atomically(figure, _overview(results, images))
    return Showcase(results, folders, page, figure)


def _overview(results: Sequence[Result], images: Sequence[Images]) -> bytes:
    """Draw the first and the last result, and the most confident mistake among people."""
    people, places = results[0], results[-1]
    row = choose_queries(people, "mistakes", 1)[0]
    strip = Strips(people, images[0], [row], top_k=8).strip(row)
    sizes = gallery_sizes(people)
    return figure_bytes(overview(people, places, sizes, strip, ("People", "Places")), "png")


def _evaluations(world: World) -> list[tuple[str, Protocol, Inputs]]:
    people = _own("market1501", "demo-people", "Walking figures, Market-1501 rules")
    seen = Inputs(query=world.people_query, gallery=world.people_gallery)
    return [
        ("people", people, seen),
        ("people-thumbnail", people, replace(seen, encoder="thumbnail")),
        (
            "places",
            _own("pitts30k-test", "demo-places", "Street views, Pittsburgh 30k rules"),
            Inputs(query=world.places_query, gallery=world.places_gallery),
        ),
    ]


def _own(name: str, own_name: str, title: str) -> Protocol:
    """Return a published protocol under the demo's own name, without its counts."""
    changes = {"name": own_name, "title": title, "expected": ExpectedTable(), "reference": ""}
    return load_protocol(name).model_copy(update=changes)
