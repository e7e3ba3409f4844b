"""Made-up features and labels with a fixed spectrum and a fixed separability.

A vector is a sum of unit-variance Gaussian parts: one for each code of its row (its identity,
its place and heading), drawn once a code and weighted, and one of its own that fills the
variance up to 1. All parts have the same spectrum: component j is scaled by
(j + 1)^-1/2, the decay of singular values that features of trained models have in the large,
so that scores spread as theirs do (white noise of 2048 dimensions would put all scores of
negatives within 0.1 of each other). The weights set the separability.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from reid_vpr_eval import Embeddings, Relevance, Samples
from reid_vpr_eval.relevance import same_label

__all__ = ["Codes", "Floats", "Ints", "World", "features", "spectrum"]

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
#: A code for each row, and the share of the variance that the code decides.
Codes = tuple[Ints, float]

_ROWS_AT_ONCE = 4096


def spectrum(dim: int) -> Floats:
    """Return the scale of each component; the squares add up to 1.

    >>> spectrum(4).round(3)
    array([0.693, 0.49 , 0.4  , 0.346], dtype=float32)
    """
    scale = 1 / np.sqrt(np.arange(1, dim + 1))
    return np.asarray((scale / np.linalg.norm(scale)).astype(np.float32))


def features(codes: Sequence[Codes], dim: int, seed: int, side: int = 0) -> Floats:
    """Make vectors, float32 (n, dim).

    Parameters
    ----------
    codes : sequence of (int array (n,), float)
        The codes of each row from 0, and their shares of the variance, at most 1 together.
    seed : int
        Decides the parts that belong to codes: the same on both sides.
    side : int
        Decides the parts that belong to rows.

    Examples
    --------
    >>> once = features([(np.array([0, 0, 1]), 1.0)], dim=3, seed=5)
    >>> bool((once[0] == once[1]).all()), bool((once[0] == once[2]).any())
    (True, False)
    """
    n = len(codes[0][0])
    scale = spectrum(dim)
    own = np.random.default_rng([seed, 1000 + side])
    own_scale = scale * np.float32(np.sqrt(max(0.0, 1 - sum(share for _, share in codes))))
    centres = [
        np.random.default_rng([seed, number]).standard_normal((int(rows.max()) + 1, dim),
                                                              np.float32)
        * (scale * np.float32(np.sqrt(share)))
        for number, (rows, share) in enumerate(codes)
    ]  # fmt: skip
    out = np.empty((n, dim), np.float32)
    for begin in range(0, n, _ROWS_AT_ONCE):
        block = out[begin : begin + _ROWS_AT_ONCE]
        own.standard_normal(out=block, dtype=np.float32)
        block *= own_scale
        for centre, (rows, _) in zip(centres, codes, strict=True):
            block += centre[rows[begin : begin + _ROWS_AT_ONCE]]
    return out


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """Features and labels of both sides, and what is asked of them.

    Attributes
    ----------
    query, gallery : float32 arrays (n_query, dim) and (n_gallery, dim)
        One and the same object where every item is ranked against all others.
    query_label, gallery_label : int arrays
        Equal labels are right; the label -1 is ignored for everybody.
    query_camera, gallery_camera : int arrays or None
        Where given, the same label in the same camera is ignored.
    metrics : tuple of str
        What is computed.
    keep : {"all", "first"}
        Whether all positives are counted or only the best of each query.
    """

    query: Floats
    gallery: Floats
    query_label: Ints
    gallery_label: Ints
    metrics: tuple[str, ...]
    keep: Literal["all", "first"] = "all"
    query_camera: Ints | None = None
    gallery_camera: Ints | None = None
    scores: Embeddings = field(init=False)
    relevance: Relevance = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "scores", Embeddings(self.query, self.gallery))
        object.__setattr__(self, "relevance", self._judge())

    @property
    def square(self) -> bool:
        """Whether every item is ranked against all others."""
        return self.query is self.gallery

    @property
    def kept_columns(self) -> Floats:
        """The gallery vectors that are ranked, (n_kept, dim)."""
        junk = self.relevance.ignored_gallery
        return self.gallery[~junk] if junk.any() else self.gallery

    @property
    def n_bytes(self) -> int:
        """The size of features and relevance together."""
        sides = {id(side): int(side.nbytes) for side in (self.query, self.gallery)}
        judged = self.relevance
        pairs = (judged.offsets, judged.item, judged.role, judged.grade, judged.self_pair)
        return sum([*sides.values(), *(int(array.nbytes) for array in pairs)])

    def describe(self) -> dict[str, Any]:
        """Return the sizes, for the record."""
        judged = self.relevance
        return {
            "n_query": len(self.query), "dim": self.query.shape[1],
            "n_gallery": int(np.count_nonzero(~judged.ignored_gallery)),
            "n_pairs": len(judged.item), "keep": self.keep,
            "positives_per_query": float(judged.n_positive.mean()),
        }  # fmt: skip

    def _judge(self) -> Relevance:
        ours = self._samples(self.query_label, self.query_camera)
        square = self.query is self.gallery
        theirs = ours if square else self._samples(self.gallery_label, self.gallery_camera)
        return same_label(
            ours, theirs, different=[] if self.query_camera is None else ["camera"],
            ignore=[{"gallery": {"label": [-1]}}] if (self.gallery_label < 0).any() else [],
            self="exclude" if square else "keep",
        )  # fmt: skip

    def _samples(self, label: Ints, camera: Ints | None) -> Samples:
        if camera is None:
            return Samples.from_columns(label=label)
        return Samples.from_columns(label=label, camera=camera)
