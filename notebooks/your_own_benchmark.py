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
# # Your own benchmark in ten lines
#
# A benchmark is a file, not code. Suppose a table of shop photos: a product is the label, a shop
# the camera; photos of the query's own shop must not count, and some rows are unusable.

# %%
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import reid_vpr_eval as rve
from reid_vpr_eval.checks import check

folder = Path(tempfile.mkdtemp())
(folder / "shops.toml").write_text(
    """
name = "shops"
title = "The same product in another shop"

[query]
columns = { label = "product", camera = "shop" }
where = { part = "query" }

[gallery]
columns = { label = "product", camera = "shop" }
where = { part = "gallery" }

[relevance]
kind = "label"
different = ["camera"]
ignore = [{ gallery = { label = ["unusable"] } }]

[report]
metrics = ["mAP", "CMC@1", "CMC@5", "MRR"]
spelling = "R@{k}"
"""
)
shops = rve.load_protocol(folder / "shops.toml")
print(shops.judging_hash[:12])

# %% [markdown]
# A table and vectors to try it on: 40 products in 5 shops, a few unusable photos.

# %%
rng = np.random.default_rng(0)
n = 600
product = rng.integers(0, 40, n)
table = pd.DataFrame(
    {
        "product": [f"p{p:02}" for p in product],
        "shop": rng.integers(0, 5, n),
        "part": rng.choice(["query", "gallery"], n, p=[0.2, 0.8]),
    }
)
table.loc[rng.choice(n, 20, replace=False), "product"] = "unusable"
vectors = rng.normal(size=(40, 32))[product] + 1.2 * rng.normal(size=(n, 32))
samples = rve.Samples(table)

# %% [markdown]
# Before anything is scored: what is counted, and what deserves a look. Queries that are unusable
# themselves have no positive; the protocol says that they are left out.

# %%
from reid_vpr_eval.alignment import prepare

query, gallery, _ = prepare(shops, samples, samples, None)
report = check(shops, query, gallery)
print(report.counts)
print(*report.warnings, sep="\n")

# %%
result = rve.evaluate(shops, samples, samples, rve.Embeddings(vectors, vectors), by=["camera"])
print(result)

# %% [markdown]
# A typing error is told with its place:

# %%
try:
    rve.Protocol.from_dict({"name": "x", "relevance": {"kind": "label", "diferent": ["camera"]}})
except rve.ProtocolError as error:
    print(error)
