"""Histograms of blocks: how many blocks have so many items above a judged item, and tied."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import oracles
import reid_vpr_eval as rve
from reid_vpr_eval.ranking.histograms import FIELDS, Histograms, Tally

pytestmark = pytest.mark.usefixtures("kernels")


def relevance_of(role: Any, junk: Any) -> rve.Relevance:
    query, item = np.nonzero(role != 9)
    value = role[query, item]
    return rve.Relevance.from_pairs(
        query, item, grade=(value == 1).astype(float), ignored=value == -1, ignored_gallery=junk,
        n_query=role.shape[0], n_gallery=role.shape[1],
    )  # fmt: skip


def literal(
    scores: Any, role: Any, blocks: Any, strata: Any, kept: Any, junk: Any
) -> tuple[dict[tuple[int, int], Counter[tuple[int, int, int]]], Any]:
    """Return the histogram of every item of a judged block, and the blocks left, by query."""
    n_strata = int(strata.max()) + 1
    found: dict[tuple[int, int], Counter[tuple[int, int, int]]] = {}
    left = np.zeros((len(scores), n_strata + 1), int)
    for query in range(len(scores)):
        judged = {blocks[g] for g in np.flatnonzero(role[query] != 9) if not junk[g]}
        members = {
            block: [g for g in np.flatnonzero(blocks == block)
                    if not junk[g] and kept[query, strata[g]]]
            for block in set(blocks) - judged
        }  # fmt: skip
        members = {block: items for block, items in members.items() if items}
        where = {block: {strata[g] for g in items} for block, items in members.items()}
        stratum = {b: s.pop() if len(s) == 1 else n_strata for b, s in where.items()}
        for block in members:
            left[query, stratum[block]] += 1
        for item in np.flatnonzero(np.isin(blocks, list(judged)) & ~junk).tolist():
            mine: Counter[tuple[int, int, int]] = Counter()
            for block, items in members.items():
                above = int((scores[query, items] > scores[query, item]).sum())
                tied = int((scores[query, items] == scores[query, item]).sum())
                if above or tied:
                    mine[stratum[block], above, tied] += 1
            found[query, item] = mine
    return found, left


def world(seed: int, n: int = 70) -> dict[str, Any]:
    """Duplicates, ignored items, junk, strata that queries drop, blocks over several strata."""
    rng = np.random.default_rng(seed)
    query, gallery = rng.normal(size=(9, 4)), rng.normal(size=(n, 4))
    gallery[::3] = gallery[rng.integers(0, n, len(gallery[::3]))]
    role = rng.choice([1, -1, 0, 9], size=(9, n), p=[0.03, 0.02, 0.02, 0.93])
    role[:, 0] = 1
    junk = rng.random(n) < 0.1
    junk[0] = False
    strata, keeps = rng.integers(0, 3, n), rng.random((9, 3)) < 0.8
    strata[0], keeps[:, 0] = 0, True
    blocks = rng.integers(0, 20, n)
    strata[blocks < 8] = blocks[blocks < 8] % 3
    return {
        "scores": rve.Embeddings(query.astype(np.float32), gallery.astype(np.float32)),
        "relevance": relevance_of(role, junk).keeping(strata, keeps),
        "role": role, "junk": junk, "strata": strata, "keeps": keeps, "blocks": blocks,
    }  # fmt: skip


def histogram_of(ranking: rve.Ranking, pair: int) -> Counter[tuple[int, int, int]]:
    found = Histograms.of(ranking)
    assert found is not None
    mine = slice(*found.offsets[pair : pair + 2])
    rows = zip(found.stratum[mine].tolist(), found.above[mine].tolist(),
               found.tied[mine].tolist(), strict=True)  # fmt: skip
    return Counter(dict(zip(rows, found.count[mine].tolist(), strict=True)))


def check_literal(ranking: rve.Ranking, world: dict[str, Any], scores: Any) -> None:
    wanted, left = literal(scores, world["role"], world["blocks"], world["strata"],
                           world["keeps"], world["junk"])  # fmt: skip
    pairs = list(zip(ranking.query_of_pair.tolist(), ranking.item.tolist(), strict=True))
    assert set(pairs) == set(wanted), "every member of a block that holds a judged item is judged"
    for number, pair in enumerate(pairs):
        assert histogram_of(ranking, number) == wanted[pair], pair
    assert (ranking.n_unjudged_blocks == left).all()


@pytest.mark.parametrize("seed", range(6))
def test_histograms_equal_a_literal_count(seed: int) -> None:
    made = world(seed)
    matrix = oracles.canonical_matrix(made["scores"].query, made["scores"].gallery, "cosine")
    for scores in (made["scores"], rve.ScoreMatrix(matrix, higher_is_better=True)):
        ranking = rve.rank(scores, made["relevance"], blocks=made["blocks"])
        check_literal(ranking, made, matrix)


def test_items_above_add_up_to_the_plain_counts() -> None:
    """The blocks of a histogram hold the very items that are counted without blocks."""
    made = world(11)
    ranking = rve.rank(made["scores"], made["relevance"], blocks=made["blocks"])
    found = Histograms.of(ranking)
    assert found is not None
    for name in ("above", "tied"):
        items = np.asarray(getattr(found, name), np.int64) * found.count
        total = np.bincount(found.owner, weights=items, minlength=len(ranking.item))
        assert (total == ranking.counted(name)).all()
    assert ranking.counted("tied").any()


def test_the_same_bits_for_any_memory_workers_and_passes(monkeypatch: Any) -> None:
    made = world(3, 120)
    given = (made["scores"], made["relevance"])
    whole = rve.rank(*given, blocks=made["blocks"], workers=1)
    for options in ({"memory": "40KiB", "workers": 2}, {"memory": "12KiB", "workers": 1}):
        other = rve.rank(*given, blocks=made["blocks"], **options)
        for name in (*FIELDS, "n_unjudged_blocks"):
            ours, theirs = getattr(whole, name), getattr(other, name)
            assert ours.dtype == theirs.dtype
            assert np.array_equal(ours, theirs), name
    monkeypatch.setattr("reid_vpr_eval.ranking.histograms._WAITING", 5)
    again = rve.rank(*given, blocks=made["blocks"])
    assert np.array_equal(again.block_count, whole.block_count)


def test_slices_of_whole_blocks_merge_save_and_load(tmp_path: Any) -> None:
    made = world(5)
    order = np.argsort(made["blocks"], kind="stable")
    blocks = made["blocks"][order]
    cut = int(np.searchsorted(blocks, 9))
    inside = int(np.flatnonzero(blocks[1:] == blocks[:-1])[-1]) + 1
    scores = made["scores"].take(range(9), order)
    relevance = relevance_of(made["role"][:, order], made["junk"][order])
    whole = rve.rank(scores, relevance, blocks=blocks)
    parts = [rve.rank(scores, relevance, blocks=blocks, gallery_slice=rows)
             for rows in ((cut, 70), (0, cut))]  # fmt: skip
    merged = rve.Ranking.merge(parts)
    merged.save(tmp_path / "r.npz")
    for other in (merged, rve.Ranking.load(tmp_path / "r.npz")):
        for name in (*FIELDS, "n_unjudged_blocks", "row_block"):
            assert np.array_equal(getattr(whole, name), getattr(other, name)), name
            assert getattr(whole, name).dtype == getattr(other, name).dtype
    with pytest.raises(rve.AlignmentError, match=r"cuts 1 blocks: slices must hold whole blocks"):
        rve.rank(scores, relevance, blocks=blocks, gallery_slice=(0, inside))
    plain = rve.rank(scores, relevance, gallery_slice=(0, cut))
    with pytest.raises(rve.AlignmentError, match=r"judges other pairs|counts other blocks"):
        rve.Ranking.merge([parts[0], plain])


def test_groups_and_blocks_are_both_judged_whole() -> None:
    """Item 0 is judged; its group holds 1, whose block holds 2, whose group holds 3."""
    relevance = rve.Relevance.from_pairs([0], [0], n_query=1, n_gallery=6)
    scores = rve.ScoreMatrix([[6.0, 5, 4, 3, 2, 1]], higher_is_better=True)
    ranking = rve.rank(scores, relevance, group=[0, 0, 1, 1, 2, 2], blocks=[9, 1, 1, 2, 3, 4])
    assert ranking.item.tolist() == [0, 1, 2, 3]
    assert ranking.n_unjudged_blocks is not None
    assert ranking.n_unjudged_blocks.tolist() == [[2, 0]]


def test_a_regrade_keeps_the_histograms_unless_other_strata_are_kept() -> None:
    made = world(2)
    easy = relevance_of(made["role"], made["junk"])
    ranking = rve.rank(made["scores"], made["relevance"], judge=[easy], blocks=made["blocks"])
    same = ranking.regrade(made["relevance"])
    assert np.array_equal(same.block_count, ranking.block_count)
    assert ranking.regrade(easy).block_count is None


@pytest.mark.parametrize("far", [1.0, 4096.0])
def test_many_scores_in_doubt_are_settled(far: float) -> None:
    """Vectors that differ in their last bits only: the matrix product decides next to nothing."""
    rng = np.random.default_rng(0)
    base = rng.normal(size=512) * far
    gallery = (base + rng.normal(size=(90, 512)) * 1e-5 * far).astype(np.float32)
    query = (base + rng.normal(size=(4, 512)) * 1e-5 * far).astype(np.float32)
    role = np.full((4, 90), 9)
    role[:, ::9] = 1
    scores = rve.Embeddings(query, gallery, metric="euclidean")
    made = {"role": role, "junk": np.zeros(90, bool), "blocks": np.arange(90) // 3,
            "strata": np.zeros(90, int), "keeps": np.ones((4, 1), bool)}  # fmt: skip
    ranking = rve.rank(scores, relevance_of(role, made["junk"]), blocks=made["blocks"])
    check_literal(ranking, made, oracles.canonical_matrix(query, gallery, "euclidean"))


def test_what_blocks_cannot_be_counted_in() -> None:
    relevance = rve.Relevance.from_pairs([0], [0], n_query=1, n_gallery=2)
    scores = rve.ScoreMatrix([[1.0, 0.0]], higher_is_better=True)
    with pytest.raises(rve.AlignmentError, match="block has the shape"):
        rve.rank(scores, relevance, blocks=[0])
    with pytest.raises(rve.NotCountedError, match="not counted in ranked lists"):
        rve.rank(rve.RankedLists([[0, 1]]), relevance, blocks=[0, 1])
    with pytest.raises(rve.NotCountedError, match="would cut blocks: leave it or blocks= out"):
        rve.rank(scores, relevance, blocks=[0, 1], checkpoint="nowhere")


def test_a_protocol_counts_blocks_by_name() -> None:
    from reid_vpr_eval.protocol import Protocol

    protocol = Protocol.from_dict(
        {"name": "captions", "relevance": {"kind": "label"}, "count": {"blocks": "image"}}
    )
    query = rve.Samples.from_columns(label=[1])
    gallery = rve.Samples.from_columns(label=[2, 2, 1], image=["a", "a", "b"])
    scores = rve.ScoreMatrix([[3.0, 2.0, 1.0]], higher_is_better=True)
    ranking = rve.evaluate(protocol, query, gallery, scores).ranking
    assert ranking is not None
    assert ranking.block == "image"
    assert histogram_of(ranking, 0) == Counter({(0, 2, 0): 1})
    with pytest.raises(rve.FormatError, match=r"no column .nonsense."):
        rve.evaluate(protocol, query, gallery, scores, blocks="nonsense")


def test_rows_are_tallied() -> None:
    tally = Tally(2)
    for rows in ([[1, 2], [1, 2], [0, 5]], [], [[1, 2]]):
        given = np.array(rows, np.int64).reshape(-1, 2)
        tally.add(given[:, 0], given[:, 1])
    assert tally.rows().T.tolist() == [[0, 5, 1], [1, 2, 3]]
