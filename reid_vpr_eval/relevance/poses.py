"""Right by pose: so near and turned so little, of camera centres and rotations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.spatial import KDTree

from reid_vpr_eval.errors import RelevanceError, counted, name_some
from reid_vpr_eval.relevance.ignores import Ignores
from reid_vpr_eval.relevance.near import Near, candidates
from reid_vpr_eval.relevance.pairing import check_sides
from reid_vpr_eval.relevance.pairs import NoPositive, Relevance, SelfRule
from reid_vpr_eval.samples import Samples

__all__ = ["pose"]

_CENTRE = ("x", "y", "z")
_ROTATION = ("qw", "qx", "qy", "qz")
#: How far the norm of a stored quaternion may be from 1.
_ROUNDED = 1e-3

Floats = npt.NDArray[np.float64]


def pose(
    query: Samples,
    gallery: Samples,
    *,
    metres: float | Sequence[float] = 0.25,
    degrees: float | Sequence[float] | None = 2.0,
    strict: bool = False,
    self: SelfRule = "keep",
    ignore: Sequence[Mapping[str, Any]] = (),
    wide_ignore: Sequence[Mapping[str, Any]] = (),
    group_search: str | None = None,
    no_positive: NoPositive = "zero",
) -> Relevance:
    """Judge by pose: an item whose camera is so near and so little turned is positive.

    Parameters
    ----------
    query, gallery : Samples
        With the columns x, y, z (camera centres in metres, not the translations of
        world-to-camera poses) and qw, qx, qy, qz (unit quaternions, one convention on
        both sides).
    metres, degrees : float or sequence of float
        The largest distance and the largest rotation. Of several, one of `degrees` for each
        of `metres`, the first pair is the headline; all are judged, and ``relevance.at(0.5)``
        reads the one with these metres. None for `degrees`, or 180 for all of them unless
        `strict`: the position alone, so that rotations are not needed.
    strict : bool
        Whether exactly the threshold is already wrong.
    self : {"keep", "exclude"}
        Whether an item with the query's own id stays in its ranking.
    ignore, wide_ignore : sequence of mappings
        Further ignored items, as in :func:`same_label`.
    group_search : str, optional
        A column: a query is searched among the items of its own value.
    no_positive : {"skip", "zero", "one", "error"}
        The default for queries without a positive.

    Raises
    ------
    RelevanceError
        If a quaternion is no rotation, a centre is not finite, or thresholds do not pair up.

    Examples
    --------
    >>> turned = {"qw": [1.0, 0.9998], "qx": [0.0, 0.02], "qy": [0.0, 0.0], "qz": [0.0, 0.0]}
    >>> gallery = Samples.from_columns(x=[0.1, 0.0], y=[0.0, 0.0], z=[0.0, 0.0], **turned)
    >>> query = gallery.take([0])
    >>> relevance = pose(query, gallery, metres=[0.25, 0.5], degrees=[2.0, 5.0])
    >>> relevance.positives(0), relevance.at(0.5).positives(0)
    (array([0]), array([0, 1]))
    """
    check_sides(query, gallery)
    limits = _limits(metres, degrees)
    ignores = Ignores.of(
        query, gallery, ignore, wide_ignore, self=self, group_search=group_search
    )
    sides = (("query", query), ("gallery", gallery))
    ours, theirs = (_columns(side, samples, _CENTRE) for side, samples in sides)
    turns = None
    if degrees is not None and (strict or min(angle for _, angle in limits) < 180):
        turns = [_rotations(side, samples) for side, samples in sides]
    below = np.less if strict else np.less_equal
    near = Near()
    for i, j in candidates(ours, KDTree(theirs), max(limit[0] for limit in limits)):
        step = ours[i] - theirs[j]
        apart = np.sqrt((step * step).sum(axis=1))
        turned = np.zeros(len(i)) if turns is None else _degrees(turns[0][i], turns[1][j])
        near.add(i, j, [below(apart, most) & below(turned, angle) for most, angle in limits])
    angle = "" if degrees is None else f" and {limits[0][1]:g} degrees"
    return ignores.settle(
        near.found, passes=near.passes, thresholds=tuple(limit[0] for limit in limits),
        no_positive=no_positive,
        note=f"no gallery item is within {limits[0][0]:g} m{angle} of a query",
    )  # fmt: skip


def _limits(
    metres: float | Sequence[float], degrees: float | Sequence[float] | None
) -> list[tuple[float, float]]:
    near = np.atleast_1d(np.asarray(metres, dtype=float)).tolist()
    if degrees is None:
        turned = [180.0] * len(near)
    else:
        turned = np.atleast_1d(np.asarray(degrees, dtype=float)).tolist()
    if not near or len(near) != len(turned):
        raise RelevanceError(
            f"metres has {counted(len(near), 'threshold')} and degrees {len(turned)}: one of "
            "degrees is needed for each of metres"
        )
    for name, values in (("metres", near), ("degrees", turned)):
        if not all(0 < value < np.inf for value in values):
            raise RelevanceError(f"{name} = {values}: numbers above 0 are needed")
    if len(set(near)) < len(near):
        raise RelevanceError(
            f"metres = {near}: thresholds are read by their metres, so each may occur once"
        )
    return list(zip(near, turned, strict=True))


def _columns(side: str, samples: Samples, names: Sequence[str]) -> Floats:
    """Return columns of numbers side by side, all finite."""
    lacking = [name for name in names if name not in samples]
    if lacking:
        raise RelevanceError(
            f"the {side} side has no column {', '.join(lacking)}: a pose needs {', '.join(names)}; "
            f"it has {', '.join(samples.column_names) or 'none'}"
        )
    columns = [samples.values(name) for name in names]
    for name, column in zip(names, columns, strict=True):
        if column.dtype.kind not in "iuf":
            raise RelevanceError(
                f"{side} side: the column {name!r} holds {column[:1].tolist()[0]!r}, no number"
            )
    values = np.stack(columns, axis=1).astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
    if len(bad):
        raise RelevanceError(
            f"{side} side: {', '.join(names)} are not finite in rows {name_some(bad)}: fill them "
            "or drop these rows"
        )
    return values


def _rotations(side: str, samples: Samples) -> Floats:
    turns = _columns(side, samples, _ROTATION)
    norm = np.sqrt((turns * turns).sum(axis=1))
    bad = np.flatnonzero(np.abs(norm - 1) > _ROUNDED)
    if len(bad):
        raise RelevanceError(
            f"{side} side: {counted(len(bad), 'quaternion')} (qw, qx, qy, qz) without the norm 1 "
            f"of a rotation (rows {name_some(bad)}; row {bad[0]}: {turns[bad[0]].tolist()}, "
            f"norm {norm[bad[0]]:g}); normalise them, or drop these rows"
        )
    return np.asarray(turns / norm[:, None])


def _degrees(ours: Floats, theirs: Floats) -> Floats:
    """Return the angle of the rotation from one unit quaternion to another, in degrees.

    From the chord and its complement, which is exact to rounding for small angles as well,
    where the arc cosine of a trace is not. A quaternion and its negative are one rotation.
    """
    dot = (ours * theirs).sum(axis=1)
    flipped = np.where(dot < 0, -1.0, 1.0)[:, None] * theirs
    chord = np.sqrt(((ours - flipped) ** 2).sum(axis=1))
    other = np.sqrt(((ours + flipped) ** 2).sum(axis=1))
    return np.asarray(np.minimum(np.degrees(4 * np.arctan2(chord, other)), 180.0))
