"""The worlds that are timed: their sizes, their separability, and the ratios to reach.

Every size is that of a published benchmark and can be divided, for a quick run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from benchmarks.worlds import Ints, World, features

__all__ = ["CASES", "Case", "plain_world", "row_world"]

_VIEWS, _HEADINGS = 24, 12
_TOP = ("CMC@1", "CMC@5", "CMC@10")


@dataclass(frozen=True, slots=True)
class Case:
    """One line of the table.

    Attributes
    ----------
    title : str
        What it is like.
    make : callable(shrink) -> World
        Makes it, with sizes divided by `shrink`.
    targets : tuple of float
        The ratios to the bare product to reach with NumPy alone and with compiled kernels.
    """

    title: str
    make: Callable[[int], World]
    targets: tuple[float, float]

    def target(self, kernels: str) -> float:
        """Return the ratio to reach with these kernels, numpy or numba."""
        return self.targets[("numpy", "numba").index(kernels)]


def _people(
    shrink: int, *, n_gallery: int, n_query: int, n_distractors: int, n_junk: int, share: float,
    seed: int, dim: int = 2048,
) -> World:  # fmt: skip
    """Queries of 750 people in 6 cameras; distractors of their own, junk for nobody."""
    n_query, n_gallery, dim = n_query // shrink, n_gallery // shrink, dim // shrink
    n_distractors, n_junk = n_distractors // shrink, n_junk // shrink
    n_people = max(2, 750 // shrink)
    rng = np.random.default_rng([seed, 99])
    who = np.arange(n_query) % n_people
    camera = (who + np.arange(n_query) // n_people) % 6
    own = np.arange(n_people, n_people + n_distractors)
    several = rng.integers(0, n_people, n_gallery - n_distractors)
    people = np.concatenate([several, own, rng.integers(0, n_people, n_junk)])
    order = rng.permutation(len(people))
    people = people[order]
    label = np.where(order < n_gallery, people, -1)
    return World(
        query=features([(who, share)], dim, seed),
        gallery=features([(people, share)], dim, seed, side=1),
        query_label=who, gallery_label=label, query_camera=camera,
        gallery_camera=rng.integers(0, 6, len(people)), metrics=("mAP", *_TOP),
    )  # fmt: skip


def _market(shrink: int) -> World:
    return _people(shrink, n_query=3368, n_gallery=15913, n_distractors=2798, n_junk=3819,
                   share=0.46, seed=1501)  # fmt: skip


def _large(shrink: int) -> World:
    return _people(shrink, n_query=3368, n_gallery=100_000, n_distractors=86_885, n_junk=0,
                   share=0.46, seed=500)  # fmt: skip


def _streets(
    shrink: int, *, n_query: int, n_gallery: int, per_place: int, dim: int, place: float,
    heading: float, seed: int, metrics: tuple[str, ...], keep: Literal["all", "first"] = "all",
) -> World:  # fmt: skip
    """Panoramas in 24 views: those of a place are right, those of one heading look alike."""
    n_query, n_gallery, dim = n_query // shrink, n_gallery // shrink, dim // shrink
    n_places = max(2, round(n_gallery / per_place))
    where = np.arange(n_gallery) * n_places // n_gallery
    asked = np.arange(n_query) // _VIEWS % n_places

    def codes(places: Ints) -> list[tuple[Ints, float]]:
        headings = np.arange(len(places)) % _VIEWS % _HEADINGS
        return [(places, place), (places * _HEADINGS + headings, heading)]

    return World(
        query=features(codes(asked), dim, seed), gallery=features(codes(where), dim, seed, side=1),
        query_label=asked, gallery_label=where, metrics=metrics, keep=keep,
    )  # fmt: skip


def _pitts(shrink: int) -> World:
    return _streets(shrink, n_query=6816, n_gallery=10_000, per_place=142, dim=4096, place=0.3,
                    heading=0.25, seed=30, metrics=("mAP", *_TOP))  # fmt: skip


def _places(shrink: int, place: float, keep: Literal["all", "first"]) -> World:
    return _streets(shrink, n_query=8280, n_gallery=83_952, per_place=100, dim=512, place=place,
                    heading=0.1, seed=250, keep=keep,
                    metrics=_TOP if keep == "first" else ("mAP", *_TOP))  # fmt: skip


def _classes(shrink: int, *, n: int, n_classes: int, dim: int, share: float, seed: int,
             metrics: tuple[str, ...]) -> World:  # fmt: skip
    """Every item of some classes against all others."""
    n, dim = n // shrink, dim // shrink
    label = np.arange(n) * n_classes // n
    vectors = features([(label, share)], dim, seed)
    return World(vectors, vectors, label, label, metrics)


def _products(shrink: int) -> World:
    return _classes(shrink, n=60_502, n_classes=11_316 // shrink, dim=512, share=0.5, seed=60502,
                    metrics=("mAP", "R-precision", "MAP@R", *_TOP))  # fmt: skip


def _dense(shrink: int) -> World:
    return _classes(shrink, n=10_000, n_classes=10, dim=512, share=0.25, seed=10,
                    metrics=("mAP", "R-precision", *_TOP))  # fmt: skip


def plain_world(name: str, shrink: int) -> World:
    """Return a world judged by labels alone, without cameras and junk, for any peer."""
    world = CASES[name].make(shrink)
    if world.square:
        return world
    ranked = world.gallery_label >= 0
    return World(world.query, world.gallery[ranked], world.query_label,
                 world.gallery_label[ranked], world.metrics)  # fmt: skip


def row_world(n_gallery: int, *, n_query: int, dim: int) -> World:
    """Return a world of people with a gallery of any size, for the growth with it."""
    return _people(1, n_query=n_query, n_gallery=n_gallery, n_distractors=n_gallery * 3 // 4,
                   n_junk=0, share=0.46, seed=7, dim=dim)  # fmt: skip


#: Every case by its short name, in the order of the table.
CASES = {
    "market": Case("Market: 750 people, 6 cameras, junk", _market, (1.25, 1.12)),
    "large": Case("Market among 100,000", _large, (1.12, 1.08)),
    "pitts": Case("Pitts30k-like: 142 positives a query", _pitts, (1.30, 1.12)),
    "products": Case("SOP leave-one-out", _products, (0.85, 0.75)),
    "first": Case("place set, Recall@N only", lambda shrink: _places(shrink, 0.3, "first"),
                  (1.12, 1.10)),
    "places": Case("place set, 100 positives a query, mAP .5",
                   lambda shrink: _places(shrink, 0.4, "all"), (2.5, 1.5)),
    "dense": Case("dense labels: 10 classes, leave-one-out", _dense, (3.0, 2.0)),
}  # fmt: skip
