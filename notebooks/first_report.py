# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A first report
#
# Two evaluations from folders of images, without any model and without a download: people by
# the rules of Market-1501, places by the rules of Pittsburgh 30k. The images are rendered here;
# with your own folders everything below stays the same.

# %%
import tempfile
from pathlib import Path

import numpy as np

import reid_vpr_eval as rve
from reid_vpr_eval.alignment import side_spec
from reid_vpr_eval.demo import render_world
from reid_vpr_eval.formats import read_sides
from reid_vpr_eval.report import CurveDisplay, Images, write_report
from reid_vpr_eval.runs import encode_side

work = Path(tempfile.mkdtemp())
world = render_world(work / "world")
world

# %% [markdown]
# ## People
#
# File names such as `0002_c1s1_000451_00.png` give the label and the camera; the protocol says
# which grammar to use. The built-in encoder turns images into vectors.

# %%
market = rve.load_protocol("market1501")
query, gallery = read_sides(
    world.people_query,
    world.people_gallery,
    query_spec=side_spec(market, "query"),
    gallery_spec=side_spec(market, "gallery"),
)
query.samples.table.head()

# %%
features = [encode_side(side, "colour-texture") for side in (query, gallery)]
people = rve.evaluate(
    market,
    query.samples,
    gallery.samples,
    rve.Embeddings(*features),
    expected="ignore",  # these are not the published images
    top_k=10,
)
print(people)

# %% [markdown]
# The same counts, read by other rules. Nothing is scored again: dropping the rule about cameras
# turns items of the query's own camera into right answers, and the numbers rise.

# %%
same_identity = rve.relevance.same_label(
    query.samples, gallery.samples, ignore=[{"gallery": {"label": [-1]}}]
)
easier = people.ranking.regrade(same_identity)
for name, ranking in (("another camera", people.ranking), ("any camera", easier)):
    values = rve.compute(ranking, ["mAP", "mAP(rule=trapezoid)", "CMC@1"])
    print(f"{name:15}", {metric: round(100 * values[metric], 1) for metric in values})

# %% [markdown]
# ## Places
#
# Names such as `@500123.40@4649776.22@32@T@...@.png` carry positions; within 25 metres is right.
# Queries further from every image of the map count as misses, and lower the ceiling.

# %%
pitts = rve.load_protocol("pitts30k-test")
place_query, place_gallery = read_sides(
    world.places_query,
    world.places_gallery,
    query_spec=side_spec(pitts, "query"),
    gallery_spec=side_spec(pitts, "gallery"),
)
vectors = [encode_side(side, "colour-texture") for side in (place_query, place_gallery)]
places = rve.evaluate(
    pitts,
    place_query.samples,
    place_gallery.samples,
    rve.Embeddings(*vectors),
    expected="ignore",
    top_k=10,
)
print(places)

# %%
wrong = places.per_query[~places.per_query["top1_correct"]]
print(f"median error of wrong answers: {np.median(wrong['top1_error_m']):.0f} m")

# %% [markdown]
# ## The report
#
# One page with both: tables, curves, picture lists, and how to reproduce it.

# %%
CurveDisplay.from_result(people).plot().figure_

# %%
CurveDisplay.from_result(places).plot().figure_

# %%
page = write_report(
    [people, places],
    work / "report",
    [Images.of_sides(query, gallery), Images.of_sides(place_query, place_gallery)],
)
people.save(work / "runs" / "people")
page.name, sorted(path.name for path in (work / "runs" / "people").iterdir())
