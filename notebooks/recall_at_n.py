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
# # Recall@N, as for Pittsburgh and Tokyo
#
# Two encoders on the same street views, judged within 25 metres: the plot of a place
# recognition paper with bands for other queries, how the numbers hang on the radius, and a map
# of what went wrong. The views are rendered here, so nothing is downloaded; with `--query` and
# `--gallery` folders of your own (names `@east@north@...@.jpg`) everything stays the same.

# %%
import tempfile
from pathlib import Path

import reid_vpr_eval as rve
from reid_vpr_eval.demo import render_world
from reid_vpr_eval.report import Images, write_report
from reid_vpr_eval.report.figures import (
    CurveDisplay,
    ErrorDisplay,
    FailureMapDisplay,
    RadiusDisplay,
)
from reid_vpr_eval.runs import Inputs, run

work = Path(tempfile.mkdtemp())
world = render_world(work / "world")
pitts = rve.load_protocol("pitts30k-test")

# %% [markdown]
# The demo's views are not the published ones, so the counts are not enforced.

# %%
results, images = [], []
for encoder in ("colour-texture", "thumbnail"):
    inputs = Inputs(query=world.places_query, gallery=world.places_gallery, encoder=encoder)
    result, loaded = run(pitts, inputs, expected="ignore", top_k=10)
    results.append(result)
    images.append(Images.of_sides(loaded.query, loaded.gallery))
names = ["colour and texture", "thumbnail"]
print(results[0])

# %% [markdown]
# ## The plot
#
# The band is the interval of each point over other queries of the same kind, against the same
# database. The ceiling is below 100 where queries have nothing to find.

# %%
CurveDisplay.from_results(results, names=names).plot().figure_

# %% [markdown]
# ## How near is right?
#
# Recall by the radius, and the distance of the first answer: 25 metres is a choice.

# %%
RadiusDisplay.from_results(results, names=names).plot().figure_

# %%
ErrorDisplay.from_results(results, names=names).plot().figure_

# %% [markdown]
# ## Where does it fail?

# %%
FailureMapDisplay.from_result(results[0], name=names[0]).plot().figure_

# %% [markdown]
# ## Is the better one better?
#
# The same queries were put to both, so they are compared query by query.

# %%
print(rve.compare(results, "CMC@1", names=names))

# %%
page = write_report(results, work / "report", images, names=names)
page.name
