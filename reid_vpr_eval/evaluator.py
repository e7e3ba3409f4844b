"""Evaluator: collect features batch by batch in a validation loop, then evaluate them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from reid_vpr_eval.errors import (
    AlignmentError,
    EvaluationWarning,
    NotCountedError,
    ScoreError,
    counted,
    name_some,
)
from reid_vpr_eval.evaluation import evaluate
from reid_vpr_eval.protocol import Protocol, load_protocol
from reid_vpr_eval.result import Result
from reid_vpr_eval.samples import Samples
from reid_vpr_eval.scores import Embeddings

__all__ = ["Evaluator", "plain_array"]

Array = npt.NDArray[Any]
_SIDES = ("query", "gallery")


class Evaluator:
    """Collects features and metadata over the batches of a validation loop.

    Parameters
    ----------
    protocol : str or Protocol
        The name of a shipped protocol, the path of a file, or a protocol.
    metric : str, optional
        How features are compared, as in :class:`Embeddings`; by default as the protocol says.
    bad_vectors : {"error", "last"}
        What a vector means that cannot be scored: an error that names its row, or last:
        such gallery items stand behind all others, such queries are misses.
    interval : str or mapping, optional
        How intervals are made, as in :func:`evaluate`; "none" where only the numbers count.

    Raises
    ------
    NotCountedError
        If `bad_vectors` is unknown.

    Examples
    --------
    >>> import reid_vpr_eval as rve
    >>> from reid_vpr_eval.evaluator import Evaluator
    >>> evaluator = Evaluator("labels")
    >>> evaluator.update([[1.0, 0.0], [0.0, 1.0]], side="query", label=[1, 2], id=["a", "b"])
    >>> evaluator.update([[1.0, 0.1]], side="gallery", label=[1], id=["c"])
    >>> evaluator.update([[0.9, 0.8]], side="gallery", label=[2], id=["d"])
    >>> evaluator.compute().metrics["R@1"]
    1.0
    """

    def __init__(
        self,
        protocol: str | Protocol,
        *,
        metric: str | None = None,
        bad_vectors: Literal["error", "last"] = "error",
        interval: str | Mapping[str, Any] | None = None,
    ) -> None:
        if bad_vectors not in ("error", "last"):
            raise NotCountedError(f"bad_vectors = {bad_vectors!r}: one of error, last is needed")
        self._bad_vectors: Literal["error", "last"] = bad_vectors
        self.protocol = load_protocol(protocol) if isinstance(protocol, str) else protocol
        self._interval = interval
        self.metric = metric or self.protocol.report.metric
        self._batches: dict[str, list[tuple[Array, dict[str, Array]]]] = {}
        self.reset()

    def reset(self) -> None:
        """Forget everything that was collected."""
        self._batches = {side: [] for side in _SIDES}

    def update(self, features: Any, *, side: Literal["query", "gallery"], **columns: Any) -> None:
        """Add a batch to one side.

        Parameters
        ----------
        features : array or tensor (n, d)
            One vector a row. Tensors are detached and brought to the CPU.
        side : {"query", "gallery"}
            Where the batch belongs.
        **columns
            Metadata, one value a row: ``label=``, ``camera=``, ``id=`` ... The same columns
            in every batch of a side.

        Raises
        ------
        AlignmentError
            If `side` is unknown, or sizes or columns do not fit.
        ScoreError
            If a vector is not finite: names the rows, counted over the whole side.
        """
        if side not in _SIDES:
            raise AlignmentError(f"side = {side!r}: one of {', '.join(_SIDES)} is needed")
        vectors = np.array(plain_array(features))
        if vectors.ndim != 2 or vectors.dtype.kind not in "iufb":
            raise ScoreError(
                f"features have the shape {vectors.shape} and the type {vectors.dtype}: real "
                "numbers of the shape (rows, dimensions) are needed"
            )
        table = {name: np.array(plain_array(values)) for name, values in columns.items()}
        before = self._batches[side]
        _check_batch(vectors, table, before, side)
        if self._bad_vectors == "error":
            _check_finite(vectors, before, side)
        if len(vectors):
            before.append((vectors, table))

    def compute(self, **options: Any) -> Result:
        """Evaluate what was collected; it is kept until :meth:`reset`.

        A row that repeats an id with the same vector is left out with a warning:
        distributed samplers pad their last batches with such rows.

        Parameters
        ----------
        **options
            Every keyword of :func:`reid_vpr_eval.evaluate`.

        Raises
        ------
        AlignmentError
            If a side is empty, or an id repeats with another vector or other metadata.
        """
        query, query_vectors = self._side("query")
        gallery, gallery_vectors = self._side("gallery")
        scores = Embeddings(
            query_vectors, gallery_vectors, metric=self.metric, bad_vectors=self._bad_vectors
        )
        options = {"interval": self._interval, **options}
        if self._bad_vectors == "last":
            options = {"missing_query": "zero", **options}
        return evaluate(self.protocol, query, gallery, scores, **options)

    def _side(self, side: str) -> tuple[Samples, Array]:
        batches = self._batches[side]
        if not batches:
            raise AlignmentError(f"the {side} side is empty: update(..., side={side!r}) first")
        vectors = np.concatenate([batch for batch, _ in batches])
        names = batches[0][1]
        table = {name: np.concatenate([part[name] for _, part in batches]) for name in names}
        rows = _distinct(side, vectors, table)
        return Samples({name: values[rows] for name, values in table.items()}), vectors[rows]


def plain_array(given: Any) -> Array:
    """Return a NumPy array of whatever holds numbers, tensors of any device included.

    >>> plain_array([1, 2])
    array([1, 2])
    """
    if isinstance(given, list | tuple) and any(hasattr(item, "detach") for item in given):
        return np.asarray([plain_array(item) for item in given])
    for step in ("detach", "cpu"):
        if hasattr(given, step):
            given = getattr(given, step)()
    if "bfloat16" in str(getattr(given, "dtype", "")) and hasattr(given, "float"):
        given = given.float()
    return np.asarray(given)


def _check_finite(
    vectors: Array, before: list[tuple[Array, dict[str, Array]]], side: str
) -> None:
    n_before = sum(len(batch) for batch, _ in before)
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(bad):
        raise ScoreError(
            f"{side} features: values are NaN or infinite in {counted(len(bad), 'row')} of this "
            f"batch (rows {name_some(bad + n_before)} of the side); mend or leave out these rows"
        )


def _check_batch(
    vectors: Array,
    table: dict[str, Array],
    before: list[tuple[Array, dict[str, Array]]],
    side: str,
) -> None:
    for name, values in table.items():
        if values.shape != (len(vectors),):
            raise AlignmentError(
                f"{name} has the shape {values.shape} in a batch of "
                f"{counted(len(vectors), 'vector')}: one value a row is needed"
            )
    if not table:
        raise AlignmentError("a batch needs at least one column of metadata, such as label=")
    if not before:
        return
    first, columns = before[0]
    if vectors.shape[1] != first.shape[1]:
        raise AlignmentError(
            f"a batch of the {side} side has {counted(vectors.shape[1], 'dimension')}, the batches "
            f"before it {first.shape[1]}"
        )
    if set(table) != set(columns):
        raise AlignmentError(
            f"a batch of the {side} side has the columns {', '.join(sorted(table))}, the batches "
            f"before it {', '.join(sorted(columns))}"
        )
    for name, values in table.items():
        if len(values) and _kind(values) != _kind(columns[name]):
            raise AlignmentError(
                f"column {name!r} is {values.dtype} in this batch of the {side} side and "
                f"{columns[name].dtype} in the batches before it: use one kind"
            )


def _kind(values: Array) -> str:
    return "i" if values.dtype.kind == "u" else values.dtype.kind


def _distinct(side: str, vectors: Array, table: dict[str, Array]) -> npt.NDArray[np.int64]:
    """Return the rows that stay once repeated ids were left out."""
    rows = np.arange(len(vectors))
    if "id" not in table:
        return rows
    _, first, number = np.unique(table["id"], return_index=True, return_inverse=True)
    origin = first[number.ravel()]
    repeats = np.flatnonzero(origin != rows)
    if not len(repeats):
        return rows
    there = origin[repeats]
    differs = {"vector": (vectors[repeats] != vectors[there]).any(axis=1)}
    for name, values in table.items():
        left, right = values[repeats], values[there]
        differs[name] = (left != right) & ~((left != left) & (right != right))
    of = f"of the {side} side"
    for name, mask in differs.items():
        if mask.any():
            ids = np.unique(table["id"][repeats[mask]]).tolist()
            row = int(np.flatnonzero(mask)[0])
            raise AlignmentError(
                f"{counted(len(ids), f'id {of} repeats', f'ids {of} repeat')} "
                f"with another {name}: {name_some(ids)} (the first in rows {there[row]} and "
                f"{repeats[row]}); ids must be unique"
            )
    warnings.warn(
        f"{counted(len(repeats), f'row {of} repeats', f'rows {of} repeat')} "
        "an id with the same vector, left out (distributed samplers pad their last batches so)",
        EvaluationWarning,
        stacklevel=4,
    )
    return np.sort(first)
