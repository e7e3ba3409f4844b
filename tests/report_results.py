"""Small results for the tests of the report."""

from __future__ import annotations

import io
from functools import cache
from typing import Any

import numpy as np
import pytest
from PIL import Image

from reid_vpr_eval import Embeddings, Result, Samples, evaluate, load_protocol
from reid_vpr_eval.report import Images
from reid_vpr_eval.report.figures import SavedFigures


def features(labels: Any, seed: int, noise: float = 0.9) -> Any:
    """Return vectors around a centre a label."""
    centres = np.random.default_rng(7).normal(size=(int(labels.max()) + 1, 8))
    return centres[labels] + noise * np.random.default_rng(seed).normal(size=(len(labels), 8))


@cache
def people(seed: int = 1, top_k: int = 5) -> Result:
    """Return a result by label: 12 queries, 40 gallery items with ids."""
    query, gallery = np.arange(12) % 6, np.arange(40) % 8
    return evaluate(
        load_protocol("labels"),
        Samples.from_columns(id=[f"q/{i}.png" for i in range(12)], label=query),
        Samples.from_columns(id=[f"g/{i}.png" for i in range(40)], label=gallery),
        Embeddings(features(query, seed), features(gallery, seed + 1)),
        top_k=top_k,
    )


@cache
def places(seed: int = 3, top_k: int = 5) -> Result:
    """Return a result by distance, without ids; query 9 is far from everything."""
    place = np.arange(40) % 10
    rng = np.random.default_rng(seed)
    here = np.where(np.arange(10) == 9, 50_000, 100 * np.arange(10))
    return evaluate(
        load_protocol("places"),
        Samples.from_columns(east=500_000.0 + here, north=5_000_000.0 + np.zeros(10)),
        Samples.from_columns(east=500_000.0 + 100 * place, north=5_000_000 + rng.normal(size=40)),
        Embeddings(features(np.arange(10), seed), features(place, seed + 1)),
        top_k=top_k,
    )


@cache
def png(number: int, size: tuple[int, int] = (40, 60)) -> bytes:
    """Return a small picture."""
    stored = io.BytesIO()
    Image.new("RGB", size, (20 * number % 256, 90, 160)).save(stored, format="PNG")
    return stored.getvalue()


def picture(name: str) -> bytes:
    """Return a small picture for an item that is called by a number, or so a number is in it."""
    return png(int("".join(letter for letter in name if letter.isdecimal()) or 0))


def images(_: Result | None = None) -> Images:
    """Return pictures for a result of `people` or `places`."""
    return Images(query=picture, gallery=picture)


def without_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the figures and the curve of gallery sizes out of a page: they take seconds."""
    nothing = SavedFigures((), (), {})
    monkeypatch.setattr("reid_vpr_eval.report.comparable.save_figures", lambda *_, **__: nothing)
    monkeypatch.setattr("reid_vpr_eval.report.section.sweep_of", lambda *_: (None, "left out"))
