"""The demo: a rendered world, encoded, evaluated both ways, and its report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reid_vpr_eval.demo.world import World, render_world
from reid_vpr_eval.protocol import ExpectedTable, Protocol, load_protocol
from reid_vpr_eval.report import Images, write_report
from reid_vpr_eval.result import Result
from reid_vpr_eval.runs import Inputs, Progress, run

__all__ = ["Showcase", "show"]


@dataclass(frozen=True, slots=True, eq=False)
class Showcase:
    """What the demo leaves: results, run folders and the report that joins them."""

    results: Sequence[Result]
    folders: Sequence[Path]
    report: Path


def show(out: Path, *, seed: int = 0, progress: Progress | None = None) -> Showcase:
    """Render a small world below `out`, evaluate people and places in it, and report.

    Leaves ``world/`` (the images), ``people/`` and ``places/`` (run folders) and
    ``report.html``; the same bytes on every run, but for the two environment.json.
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
            protocol, inputs, out=out / name, overwrite=True, progress=progress,
            command="rve demo" + (f" --seed {seed}" if seed else ""),
        )
        results.append(result)
        folders.append(out / name)
        images.append(Images.of_sides(loaded.query, loaded.gallery))
    return Showcase(results, folders, write_report(results, out, images))


def _evaluations(world: World) -> list[tuple[str, Protocol, Inputs]]:
    return [
        (
            "people",
            _own("market1501", "demo-people", "Walking figures, Market-1501 rules"),
            Inputs(query=world.people_query, gallery=world.people_gallery),
        ),
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
