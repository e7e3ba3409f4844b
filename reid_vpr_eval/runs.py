"""From files to a run folder: read both sides, score them, evaluate, write everything."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.alignment import side_spec
from reid_vpr_eval.archive import write_atomically
from reid_vpr_eval.counts import Expected
from reid_vpr_eval.errors import AlignmentError, FormatError, ScoreError, counted
from reid_vpr_eval.evaluation import evaluate_prepared
from reid_vpr_eval.formats import Side, open_image, read_matrix, read_sides
from reid_vpr_eval.formats.arrays import load_array
from reid_vpr_eval.formats.registry import existing, find_reader, located, parsing
from reid_vpr_eval.protocol import Protocol
from reid_vpr_eval.ranking.cluster import connected
from reid_vpr_eval.result import Result
from reid_vpr_eval.scores import Embeddings, RankedLists, ScoreMatrix, Scores
from reid_vpr_eval.tables import csv_bytes

__all__ = ["Inputs", "Loaded", "encode_side", "load_inputs", "run", "run_folder"]

#: Called with what is being done, how much of it is done, and how much there is.
Progress: TypeAlias = Callable[[str, int, int], None]

_PICTURES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The files of an evaluation.

    `gallery` is the query side again if not given. Scores come from one place: features
    (in the sides' own files or in files of their own), a matrix of similarities or of
    distances, ranked lists, or images that `encoder` turns into features. `truth` holds the
    lists or neighbours that a protocol leaves to its user.
    """

    query: Path
    gallery: Path | None = None
    query_features: Path | None = None
    gallery_features: Path | None = None
    similarities: Path | None = None
    distances: Path | None = None
    ranked: Path | None = None
    metric: str | None = None
    encoder: str = "colour-texture"
    cache: Path | None = None
    truth: Path | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """Both sides as read, and the scores between them."""

    query: Side
    gallery: Side
    scores: Scores | None


def run(
    protocol: Protocol,
    inputs: Inputs,
    *,
    out: Path | None = None,
    overwrite: bool = False,
    expected: Expected = "enforce",
    report: bool = True,
    progress: Progress | None = None,
    dask: str | None = None,
    command: str = "",
    **counting: Any,
) -> tuple[Result, Loaded]:
    """Evaluate files by a protocol and, if `out` is given, write the run folder.

    `dask` is the address of a scheduler whose workers count; `command` is what a person
    types to have this evaluation again, and is kept with the versions.

    Raises
    ------
    ReidVprEvalError
        Whatever is wrong with the input; nothing is written then.
    """
    if out is not None:
        _check_target(out, overwrite)
    with connected(dask) as client:
        loaded = load_inputs(protocol, inputs, progress=progress)
        if loaded.scores is None:
            raise ScoreError(
                f"{inputs.query} holds neither features nor images: give --query-features and "
                "--gallery-features, --similarities, --distances or --ranked"
            )
        options = {key: value for key, value in counting.items() if value is not None}
        with_images = loaded.query.root is not None and loaded.gallery.root is not None
        if out is not None and report and with_images:
            options.setdefault("top_k", max(_PICTURES, protocol.count.top_k))
        if progress is not None and not isinstance(loaded.scores, RankedLists):
            options["progress_pairs"] = _stage(progress, "scoring judged pairs")
            options["progress"] = _stage(progress, "ranking")
        if client is not None:
            options["client"] = client
        result = evaluate_prepared(
            protocol, loaded.query.samples, loaded.gallery.samples, loaded.scores,
            expected=expected, truth=inputs.truth, **options,
        )  # fmt: skip
    result = _with_provenance(result, loaded, command)
    if out is not None:
        with run_folder(out) as folder:
            held_run = (folder / "result.json").is_file()
            result.save(folder, overwrite=overwrite or folder != out)
            if held_run:
                _remove_report(folder)
            if with_images:
                _keep_paths(folder, result, loaded)
            if report:
                from reid_vpr_eval.report import Images, write_report

                images = Images.of_sides(loaded.query, loaded.gallery) if with_images else None
                write_report([result], folder, [images])
    return result, loaded


def load_inputs(
    protocol: Protocol, inputs: Inputs, *, score: bool = True, progress: Progress | None = None
) -> Loaded:
    """Read both sides and make their scores (None if there is nothing to make them of)."""
    given = [inputs.similarities, inputs.distances, inputs.ranked]
    features = [inputs.query_features, inputs.gallery_features]
    if sum(path is not None for path in given) + any(path is not None for path in features) > 1:
        raise ScoreError(
            "scores are given twice: choose features, --similarities, --distances or --ranked"
        )
    one_side = inputs.gallery is None
    gallery = inputs.query if inputs.gallery is None else inputs.gallery
    query_side, gallery_side = read_sides(
        inputs.query,
        gallery,
        query_spec=side_spec(protocol, "query"),
        gallery_spec=side_spec(protocol, "gallery"),
        query_features=inputs.query_features,
        gallery_features=inputs.query_features
        if one_side and inputs.gallery_features is None
        else inputs.gallery_features,
    )
    scores: Scores | None = None
    if score:
        matrix = _matrix(inputs, query_side, gallery_side)
        scores = matrix or _embeddings(protocol, inputs, query_side, gallery_side, progress)
    return Loaded(query_side, gallery_side, scores)


def encode_side(
    side: Side,
    encoder: str,
    *,
    cache: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> npt.NDArray[np.float32]:
    """Encode the images of one side, (n, d) float32."""
    from reid_vpr_eval.encoders import encode

    names = [str(name) for name in side.samples.values("path")]
    return encode(
        lambda row: open_image(side, row), side.samples.n, encoder,
        names=names, cache=cache, progress=progress,
    )  # fmt: skip


@contextmanager
def run_folder(out: Path) -> Iterator[Path]:
    """Give a folder to write a run into, that appears under its name only when complete.

    A folder that is there already is written into, file by file.
    """
    if out.exists():
        yield out
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}."))
    try:
        yield partial
        umask = os.umask(0)
        os.umask(umask)
        partial.chmod(0o777 & ~umask)
        os.replace(partial, out)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def _with_provenance(result: Result, loaded: Loaded, command: str) -> Result:
    """Note the command, and where the images are, beside the versions."""
    more: dict[str, Any] = {"command": command} if command else {}
    roots = {"query": loaded.query.root, "gallery": loaded.gallery.root}
    if None not in roots.values():
        more["images"] = {side: str(Path(str(root)).absolute()) for side, root in roots.items()}
    return replace(result, environment={**result.environment, **more})


def _keep_paths(folder: Path, result: Result, loaded: Loaded) -> None:
    """Write which image belongs to which name, where names do not tell."""
    from reid_vpr_eval.report.images import PATHS, image_paths

    table = image_paths(loaded.query, loaded.gallery, result)
    (folder / PATHS).unlink(missing_ok=True)
    if table is not None:
        write_atomically(folder / PATHS, csv_bytes(table))


def _remove_report(folder: Path) -> None:
    """Remove the report of an earlier run, which would tell other numbers."""
    from reid_vpr_eval.report.figures import remove_figures

    (folder / "report.html").unlink(missing_ok=True)
    remove_figures(folder / "figures")


def _check_target(out: Path, overwrite: bool) -> None:
    """Refuse early what could not be written after a long run."""
    if out.exists() and not out.is_dir():
        raise FormatError(f"{out} is a file: name a folder for the run")
    there = next(folder for folder in (out, *out.absolute().parents) if os.path.lexists(folder))
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise FormatError(
            f"{out} cannot be made: {there} is {'not writable' if there.is_dir() else 'a file'}"
        )
    holds_run = (out / "result.json").is_file()
    if out.is_dir() and any(out.iterdir()) and not holds_run and not overwrite:
        raise FormatError(
            f"{out} holds other files: name a new folder, or allow it with --overwrite"
        )


def _matrix(inputs: Inputs, query: Side, gallery: Side) -> Scores | None:
    for path, higher in ((inputs.similarities, True), (inputs.distances, False)):
        if path is not None:
            existing(path.expanduser(), "matrix of scores")
            with located(path):
                scores = ScoreMatrix(read_matrix(path), higher_is_better=higher)
            return _sized(scores, query, gallery, path)
    if inputs.ranked is None:
        return None
    with located(inputs.ranked):
        return _ranked(inputs.ranked.expanduser(), query, gallery)


def _ranked(path: Path, query: Side, gallery: Side) -> RankedLists:
    """Read ranked lists: an array of positions or ids, or lists saved by this package."""
    lists = _stored_lists(existing(path, "ranked lists"))
    if lists.n_query != query.samples.n:
        raise AlignmentError(
            f"{counted(lists.n_query, 'ranked list')} for {counted(query.samples.n, 'query')}: "
            "list i must belong to query i"
        )
    if not lists.has_ids:
        return lists
    if gallery.samples.ids is None:
        raise AlignmentError(
            "the ranked lists name items by id, but the gallery has no column 'id': add it, or "
            "name items by their positions"
        )
    return lists.resolve(gallery.samples.ids)


def _stored_lists(path: Path) -> RankedLists:
    if path.is_dir() or path.suffix.lower() not in (".npy", ".npz"):
        raise FormatError(f"{path}: ranked lists are read from .npy and .npz files")
    if find_reader(path).suffixes == (".npy",):
        return RankedLists(load_array(path))
    with parsing(path, "ranked lists"), path.open("rb") as stream:
        stored = np.load(stream, allow_pickle=False)
        names = sorted(stored.files)
        if "header" in names:
            return RankedLists.load(path)
        if "indices" not in names:
            raise FormatError(f"no array 'indices'; it holds {', '.join(names) or 'nothing'}")
        return RankedLists(stored["indices"], stored["scores"] if "scores" in names else None)


def _embeddings(
    protocol: Protocol,
    inputs: Inputs,
    query: Side,
    gallery: Side,
    progress: Progress | None,
) -> Scores | None:
    vectors = [query.features, gallery.features]
    for number, (name, side) in enumerate((("query", query), ("gallery", gallery))):
        if vectors[number] is None and side.root is not None:
            if number and query.root == side.root and query.source == side.source and _same(
                query, side
            ):
                vectors[number] = vectors[0]
                continue
            show = _stage(progress, f"encoding {name}")
            vectors[number] = encode_side(
                side, inputs.encoder, cache=inputs.cache, progress=show
            )
    if vectors[0] is None and vectors[1] is None:
        return None
    for name, found in zip(("query", "gallery"), vectors, strict=True):
        if found is None:
            raise ScoreError(f"the {name} side has no features and no images, the other side has")
    metric = inputs.metric or protocol.report.metric
    return _sized(Embeddings(vectors[0], vectors[1], metric), query, gallery, query.source)


def _same(query: Side, gallery: Side) -> bool:
    return query.samples.fingerprint() == gallery.samples.fingerprint()


def _stage(progress: Progress | None, what: str) -> Callable[[int, int], None] | None:
    return None if progress is None else lambda done, total: progress(what, done, total)


def _sized(
    scores: Embeddings | ScoreMatrix, query: Side, gallery: Side, source: Path
) -> Embeddings | ScoreMatrix:
    wanted: dict[Literal["query", "gallery"], tuple[int, int]] = {
        "query": (scores.n_query, query.samples.n),
        "gallery": (scores.n_gallery, gallery.samples.n),
    }
    for side, (found, n) in wanted.items():
        if found != n:
            raise AlignmentError(
                f"{source}: scores for {found} {side} rows, but {counted(n, 'sample')} (those that "
                "the protocol keeps): row i of the scores must belong to sample i"
            )
    return scores
