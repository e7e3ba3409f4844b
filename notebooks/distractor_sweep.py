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
# # What would it be in a larger gallery?
#
# Numbers are comparable only on the same gallery. Adding distractors once, or drawing a few random
# subsets, tells one or a few points of a curve. The counts of one ranking hold the whole curve.
#
# Here are 200 people seen by 4 cameras, and 20,000 passers-by that nobody looks for. Two models see
# them: one makes more of the person, the other of the scene.

# %%
import tempfile
from pathlib import Path

import numpy as np

import reid_vpr_eval as rve
from reid_vpr_eval.report.figures import SweepDisplay, figure_bytes
from reid_vpr_eval.studies.distractors import backtest

rng = np.random.default_rng(0)
n_people, n_pool, dim = 200, 20_000, 64
spectrum = np.arange(1, dim + 1) ** -0.5
person = rng.normal(size=(n_people, dim)) * spectrum
camera = rng.normal(size=(4, dim)) * spectrum

query_label = np.repeat(np.arange(n_people), 2)
query_camera = np.tile([0, 1], n_people)
label = np.concatenate([np.repeat(np.arange(n_people), 8), np.full(n_pool, -7)])
place = np.concatenate([np.tile([0, 1, 2, 3], 2 * n_people), rng.integers(0, 4, n_pool)])


def seen(who, where, scene, noise):
    """Features of what a camera sees."""
    strangers = rng.normal(size=(len(who), dim)) * spectrum
    own = np.where((who >= 0)[:, None], person[np.maximum(who, 0)], strangers)
    return own + scene * camera[where] + noise * rng.normal(size=own.shape) * spectrum


# %% [markdown]
# ## One ranking each
#
# The gallery is counted in two strata, so that people and passers-by are told apart.

# %%
query = rve.Samples.from_columns(label=query_label, camera=query_camera)
gallery = rve.Samples.from_columns(label=label, camera=place)
relevance = rve.relevance.same_label(query, gallery, different=("camera",))
strata = np.where(label == -7, "distractors", "people")
rankings = {}
for name, scene, noise in (("model A", 0.3, 0.75), ("model B", 0.7, 0.6)):
    vectors = (seen(query_label, query_camera, scene, noise), seen(label, place, scene, noise))
    rankings[name] = rve.rank(rve.Embeddings(*vectors), relevance, strata=strata)
rankings

# %% [markdown]
# ## The whole curve, exactly
#
# The base is the people's gallery; passers-by are drawn without replacement. Every value is the
# exact mean over all draws. The band is over queries, with the person as the unit.

# %%
curves = {
    name: rve.distractor_curve(
        ranking, metrics=["mAP", "CMC@1", "CMC@10", "mINP"], base="people", pool="distractors",
        units=query_label,
    )
    for name, ranking in rankings.items()
}
curves["model A"].query("metric == 'mAP'").iloc[::8][["size", "gallery", "value", "low", "high"]]

# %%
display = SweepDisplay.from_curves(list(curves.values()), list(curves)).plot()
out = Path(tempfile.mkdtemp()) / "sweep.png"
out.write_bytes(figure_bytes(display.figure_, "png"))
print(display.spoken())
display.figure_

# %% [markdown]
# ## It ends at the plain run, to the last digits

# %%
ranking = rankings["model A"]
plain = rve.compute(ranking, ["mAP", "CMC@1"])
last = curves["model A"].groupby("metric")["value"].last()
{name: (float(last[name]), plain[name]) for name in plain}

# %% [markdown]
# ## The other direction: small galleries from one large run
#
# With the base "positives" nothing but each query's right answers is there at size 0, and the pool
# is every query's own negatives. No strata are needed: any saved run will do, and
# `rve sweep runs/model-a` does the same from its folder.

# %%
rve.distractor_curve(ranking, [0, 10, 100, 1000, 10_000], ["CMC@1", "mAP"])

# %% [markdown]
# ## Beyond the pool
#
# That is a model, labelled so and drawn dashed. The back-test hides half of the pool, forecasts the
# whole, and tells how often the interval held what is there.

# %%
ahead = rve.distractor_curve(
    ranking, [0, 1000, n_pool, 2 * n_pool, 4 * n_pool], ["mAP", "CMC@1"], base="people",
    pool="distractors", forecast=True,
)
ahead

# %%
table = backtest(
    ranking, ["mAP", "CMC@1"], hidden=0.5, seeds=range(4), base="people", pool="distractors",
    replicates=40,
)
table.groupby("metric")["held"].mean()
