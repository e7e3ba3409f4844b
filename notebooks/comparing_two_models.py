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
# # Comparing two models
#
# A new model scores some points more. Is that more than chance, on which queries does it come from,
# and would another seed give it too? Everything here is generated: 60 people seen by 4 cameras, a
# baseline, and a new model trained with three seeds. With your own run folders, only the first two
# cells change.

# %%
import tempfile
from pathlib import Path

import numpy as np

import reid_vpr_eval as rve
from reid_vpr_eval.report.comparison import (
    ChangesDisplay,
    DifferencesDisplay,
    render_comparison,
    write_comparison,
)

N_PEOPLE, DIM = 60, 24
world = np.random.default_rng(0)
who = np.repeat(np.arange(N_PEOPLE), 20)
camera = world.integers(0, 4, len(who))
asked = np.arange(len(who)) % 5 == 0
samples = rve.Samples.from_columns(
    id=[f"{who[i]:03}_c{camera[i]}_{i % 20:02}" for i in range(len(who))],
    label=who,
    camera=camera,
)
query, gallery = samples.take(asked), samples.take(~asked)

# %% [markdown]
# A model is a vector for each image: where the person is in its space, blurred. What it finds hard
# is partly a matter of people: all images of some are blurred more.

# %%
people = world.normal(size=(N_PEOPLE, DIM))
hard = world.uniform(0.6, 1.4, N_PEOPLE)


def run(blur: float, taste: int, seed: int) -> rve.Result:
    """Evaluate a model; `taste` decides which people are hard for it, `seed` is of the training."""
    own = hard * np.random.default_rng(taste).uniform(0.7, 1.3, N_PEOPLE)
    noise = np.random.default_rng([taste, seed]).normal(size=(len(who), DIM))
    vectors = people[who] + blur * own[who, None] * noise
    return rve.evaluate(
        "market1501",
        query,
        gallery,
        rve.Embeddings(vectors[asked], vectors[~asked]),
        expected="ignore",  # these are not the published images
    )


baseline = run(1.9, taste=1, seed=0)
new = run(1.7, taste=4, seed=0)
print(baseline)
print(new)

# %% [markdown]
# ## Is it more than chance?
#
# Each query is compared with itself under the other model, and queries of one person count as one
# piece of evidence, not as many: whole people change sign in the test and are resampled in the
# interval.

# %%
found = rve.compare([baseline, new], ["mAP", "CMC@1"], names=["baseline", "new"])
found

# %% [markdown]
# Taking every query for independent makes the interval narrower and p smaller than they are.

# %%
naive = rve.compare([baseline, new], "mAP", names=["baseline", "new"], unit="query")
for way, one in (("by person", found.difference("new")), ("by query", naive.difference("new"))):
    print(
        f"{way:10}  {100 * one.difference:+.1f} [{100 * one.low:+.1f}, {100 * one.high:+.1f}]"
        f"  p = {one.p:.4f}, {one.n_units} units"
    )

# %%
DifferencesDisplay.from_comparison(found).plot().figure_

# %% [markdown]
# ## Where does it come from?
#
# How far queries moved, and those that moved most, both ways.

# %%
ChangesDisplay.from_comparison(found).plot().figure_

# %%
found.changed(3)

# %% [markdown]
# ## Would another seed give it too?
#
# That is another question than the one above, with another answer: the spread over seeds. Runs of
# one model are given together. The values of each query are averaged over them, and the spread has
# its own column. It is no interval, and the interval does not hold it.

# %%
with_seeds = rve.compare(
    {
        "baseline": [run(1.9, taste=1, seed=seed) for seed in range(3)],
        "new": [run(1.7, taste=4, seed=seed) for seed in range(3)],
    },
    ["mAP", "CMC@1"],
)
with_seeds

# %% [markdown]
# Averaged over three seeds, the values of queries hold less noise, and the difference stands out
# from what is left. It is now one between the two ways of training, as far as three seeds tell.

# %% [markdown]
# ## For the paper
#
# A superscript names the runs that a value is significantly better than.

# %%
print(render_comparison(with_seeds, "latex"))

# %% [markdown]
# Everything in files: tables, values of each query, figures. On the command line this is
# `rve compare baseline=runs/b0,runs/b1,runs/b2 new=runs/n0,runs/n1,runs/n2 --out comparison`.

# %%
out = Path(tempfile.mkdtemp()) / "comparison"
write_comparison(with_seeds, out)
sorted(str(path.relative_to(out)) for path in out.rglob("*.*"))

# %% [markdown]
# ## What is refused
#
# Runs on other queries, another gallery or by another rule do not compare, and it is said why.

# %%
other = rve.evaluate(
    "market1501",
    query.take(np.arange(len(query)) > 9),
    gallery,
    rve.Embeddings(people[who][asked][10:], people[who][~asked]),
    expected="ignore",
)
try:
    rve.compare([baseline, other], names=["baseline", "other"])
except rve.AlignmentError as error:
    print(error)
