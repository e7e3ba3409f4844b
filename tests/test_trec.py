"""TREC files, against what trec_eval printed for its own test files."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reid_vpr_eval as rve
from reid_vpr_eval.formats import Qrels, Run, read_qrels, read_run
from reid_vpr_eval.relevance.trec import TrecInputs, trec_inputs
from shared_inputs import data

#: The measures of trec_eval that are metrics here; {} is the cut-off.
MEASURES = {
    "map": "mAP", "Rprec": "R-precision", "recip_rank": "MRR", "P_{}": "P@{}",
    "recall_{}": "IR-recall@{}", "map_cut_{}": "mAP@{}", "success_{}": "CMC@{}",
}  # fmt: skip
GAINS = {
    "ndcg": "NDCG", "ndcg_cut_{}": "NDCG@{}",
    "ndcg_1=3,2=9,4=4.5": "NDCG(gains=1:3/2:9/4:4.5)",
}  # fmt: skip
HALF_A_UNIT = 0.00005 + 1e-12


class Printed:
    """One call of trec_eval: its files, its options, and what it printed."""

    def __init__(
        self, out: str, qrels: str = "qrels.test", run: str = "results.test", level: int = 1,
        complete: bool = False, depth: int = 0,
    ) -> None:  # fmt: skip
        self.out, self.qrels, self.run, self.level = out, qrels, run, level
        self.complete, self.depth = complete, depth

    def values(self) -> list[tuple[str, str, str]]:
        lines = folder(self.out).read_text().splitlines()
        return [(a.strip(), b, c) for a, b, c in (line.split("\t") for line in lines)]

    def wanted(self, measures: dict[str, str]) -> list[tuple[str, str, float]]:
        """Metric, topic and value of each printed line that is one of these measures."""
        found = []
        for measure, topic, text in self.values():
            name = metric_of(measure, measures)
            if name:
                assert re.fullmatch(r"\d\.\d{4}", text)
                found.append((name, topic, float(text)))
        return found

    def inputs(self) -> TrecInputs:
        run = read_run(folder(self.run))
        run = run.cut(self.depth) if self.depth else run
        return trec_inputs(
            read_qrels(folder(self.qrels)), run, level=self.level, complete=self.complete
        )


PRINTED = [
    Printed("out.test"),
    Printed("out.test", qrels="qrels.test.with-comments"),
    Printed("out.test.a"),
    Printed("out.test.aq"),
    Printed("out.test.aqc", run="results.trunc", complete=True),
    Printed("out.test.aqcM", run="results.trunc", complete=True, depth=100),
    Printed("out.test.aql", qrels="qrels.rel_level", level=2),
    Printed("out.test.meas_params"),
]
#: How many values are compared: of MEASURES, of GAINS.
SIZES = [(12, 0), (12, 0), (33, 10), (132, 40), (132, 40), (132, 40), (132, 40), (32, 16)]


def folder(name: str) -> Path:
    return data(f"formats/trec_eval/{name}")


def metric_of(measure: str, measures: dict[str, str]) -> str | None:
    if measure in measures:
        return measures[measure]
    stem, _, k = measure.rpartition("_")
    pattern = measures.get(f"{stem}_{{}}")
    return pattern.format(k) if pattern and k.isdigit() else None


def compute(inputs: TrecInputs, names: list[str], ties: str = "index") -> rve.Values:
    ranking = rve.rank(inputs.scores, inputs.relevance)
    return rve.compute(ranking, names, ties=ties, unretrieved="zero", missing_query="zero")


def compare(printed: Printed, measures: dict[str, str], size: int) -> None:
    wanted = printed.wanted(measures)
    assert len(wanted) == size
    inputs = printed.inputs()
    values = compute(inputs, sorted({name for name, _, _ in wanted}))
    for name, topic, value in wanted:
        ours = values[name] if topic == "all" else per_topic(values, name, inputs, topic)
        assert abs(ours - value) <= HALF_A_UNIT, (name, topic)


def per_topic(values: rve.Values, name: str, inputs: TrecInputs, topic: str) -> float:
    return float(values.per_query(name)[inputs.topics.index(topic)])


def parameters(part: int) -> list[object]:
    return [
        pytest.param(printed, size[part], id=f"{printed.out}-{printed.qrels}")
        for printed, size in zip(PRINTED, SIZES, strict=True)
        if size[part]
    ]


@pytest.mark.parametrize(("printed", "size"), parameters(0))
def test_values_are_those_of_trec_eval(printed: Printed, size: int) -> None:
    compare(printed, MEASURES, size)


@pytest.mark.parametrize(("printed", "size"), parameters(1))
def test_gains_are_those_of_trec_eval(printed: Printed, size: int) -> None:
    """Whatever the level is, every grade above 0 has a gain."""
    compare(printed, GAINS, size)


@pytest.mark.parametrize("printed", PRINTED[:-1], ids=lambda p: f"{p.out}-{p.qrels}")
def test_counts_are_those_of_trec_eval(printed: Printed) -> None:
    inputs = printed.inputs()
    ranking = rve.rank(inputs.scores, inputs.relevance)
    pairs = ranking.query_of_pair[(ranking.role == 1) & ranking.found]
    counts = {
        "num_ret": inputs.scores.depth,
        "num_rel": inputs.relevance.n_positive,
        "num_rel_ret": np.bincount(pairs, minlength=len(inputs.topics)),
    }
    compared = 0
    for measure, topic, text in printed.values():
        if measure == "num_q":
            assert len(inputs.topics) == int(text)
        elif measure in counts:
            column = counts[measure]
            ours = column.sum() if topic == "all" else column[inputs.topics.index(topic)]
            assert ours == int(text), (measure, topic)
            compared += 1
    assert compared in (3, 12)


def test_single_topic_files_give_the_lines_of_that_topic() -> None:
    whole = Printed("out.test.aq")
    lines = [(name, value) for name, topic, value in whole.wanted(MEASURES) if topic == "302"]
    assert len(lines) == 33
    inputs = trec_inputs(read_qrels(folder("qrels-302.test")), read_run(folder("results-302.test")))
    values = compute(inputs, [name for name, _ in lines])
    for name, value in lines:
        assert abs(values[name] - value) <= HALF_A_UNIT, name


def test_the_published_run_has_ties_that_the_name_decides() -> None:
    run = read_run(folder("results.test"))
    tied = 0
    for topic in run.topics:
        ranked, scores = run.ranked(topic), run.scores[topic]
        for one, other in pairwise(ranked):
            assert scores[one] > scores[other] or (scores[one] == scores[other] and one > other)
            tied += scores[one] == scores[other]
    assert tied == 10


def test_cwl_values() -> None:
    inputs = trec_inputs(
        read_qrels(data("formats/ir_measures/cwl.qrels")),
        read_run(data("formats/ir_measures/cwl.run")),
    )
    wanted = {
        "mAP": [0.7087, 0.7438, 0.3068], "P@5": [0.6, 0.6, 0.0], "P@10": [0.5, 0.6, 0.4],
        "P@20": [0.25, 0.3, 0.2], "MRR": [1.0, 1.0, 0.1667],
    }  # fmt: skip
    assert inputs.topics == ["T1", "T2", "T3"]
    values = compute(inputs, list(wanted))
    for name, column in wanted.items():
        assert np.abs(values.per_query(name) - column).max() <= HALF_A_UNIT, name


def test_graded_run_with_unjudged_documents() -> None:
    qrels = read_qrels(data("formats/ir_measures/compat.qrels"))
    run = read_run(data("formats/ir_measures/compat.run"))
    assert {grade for topic in qrels.grades.values() for grade in topic.values()} == {
        0, 1, 2, 3, 4, 10, 20, 30, 40, 50
    }  # fmt: skip
    inputs = trec_inputs(qrels, run, level=3)
    graded = [sum(g >= 3 for g in qrels.grades[topic].values()) for topic in inputs.topics]
    assert inputs.relevance.n_positive.tolist() == graded
    literal = []
    for topic in inputs.topics:
        places = [i for i, doc in enumerate(run.ranked(topic), 1)
                  if qrels.grades[topic].get(doc, 0) >= 3]  # fmt: skip
        literal.append(1 / places[0] if places else 0.0)
    assert compute(inputs, ["MRR"]).per_query("MRR").tolist() == pytest.approx(literal, abs=0)


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from("abcdefgh"), st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1
    ),
    st.sampled_from([1, 2]),
)
def test_reciprocal_rank_and_precision_by_hand(
    docs: dict[str, tuple[int, int]], level: int
) -> None:
    """Documents with a score and a grade, many of them tied, and one that is not returned."""
    qrels = Qrels({"t": {"zz": 2} | {doc: grade for doc, (_, grade) in docs.items()}})
    run = Run({"t": {doc: float(score) for doc, (score, _) in docs.items()}})
    order = sorted(docs, key=lambda doc: (docs[doc][0], doc), reverse=True)
    right = [docs[doc][1] >= level for doc in order]
    values = compute(trec_inputs(qrels, run, level=level), ["MRR", "P@3", "IR-recall@20"])
    first = 1 / (right.index(True) + 1) if any(right) else 0.0
    assert values["MRR"] == first
    assert values["P@3"] == pytest.approx(sum(right[:3]) / 3, abs=1e-15)
    assert values["IR-recall@20"] == pytest.approx(sum(right) / (sum(right) + 1), abs=1e-15)


def test_topics_of_one_side_only() -> None:
    qrels = Qrels({"1": {"a": 1}, "2": {"a": 1}, "3": {}})
    run = Run({"1": {"a": 0.3}, "3": {"a": 0.3}, "9": {"b": 0.1}})
    plain, complete = trec_inputs(qrels, run), trec_inputs(qrels, run, complete=True)
    assert (plain.topics, complete.topics) == (["1", "3"], ["1", "2", "3"])
    assert plain.docs == ["b", "a"]
    assert compute(plain, ["MRR"])["MRR"] == 0.5
    assert compute(complete, ["MRR"]).per_query("MRR").tolist() == [1.0, 0.0, 0.0]
    ranking = rve.rank(complete.scores, complete.relevance)
    with pytest.raises(rve.NotCountedError, match="missing_query"):
        rve.compute(ranking, "MRR")


def test_cut_follows_scores_and_names() -> None:
    run = Run({"t": {"a": 1.0, "b": 1.0, "c": 0.5, "d": 2.0}})
    assert run.cut(2).scores == {"t": {"d": 2.0, "b": 1.0}}
    assert run.cut(9).ranked("t") == run.ranked("t") == ["d", "b", "a", "c"]
    with pytest.raises(rve.FormatError, match="depth = 0"):
        run.cut(0)


def test_pairs_that_do_not_fit() -> None:
    run = Run({"t": {"a": 1.0}})
    with pytest.raises(rve.AlignmentError, match="no topic in common"):
        trec_inputs(Qrels({"q": {"a": 1}}), run)
    with pytest.raises(rve.AlignmentError, match="no topic in common"):
        trec_inputs(Qrels({}), run, complete=True)
    for level in (0, -1, float("nan")):
        with pytest.raises(rve.RelevanceError, match="above 0"):
            trec_inputs(Qrels({"t": {"a": 1}}), run, level=level)
    with pytest.raises(rve.RelevanceError, match="grade -1"):
        trec_inputs(Qrels({"t": {"a": -1}}), run)
    with pytest.raises(rve.ScoreError, match="NaN or infinite"):
        trec_inputs(Qrels({"t": {"a": 1}}), Run({"t": {"a": float("nan")}}))


def test_comments_blank_lines_and_negative_grades(tmp_path: Path) -> None:
    qrels = tmp_path / "a.qrels"
    text = "\ufeff# a comment\r\n\r\n1 0 a#b 2\r\n  1\t0\tc -1\r\n2 0 c -2"
    qrels.write_bytes(text.encode())
    read = read_qrels(qrels)
    assert read.grades == {"1": {"a#b": 2}, "2": {}}
    assert read.topics == ["1", "2"]
    run = tmp_path / "a.run"
    run.write_text("#x\n1 Q0 a 9 -1e-3 tag and more\n\n1 Q0 b 1 +.5 tag\n1 Q0 c 1 2. t\n")
    assert read_run(run).scores == {"1": {"a": -0.001, "b": 0.5, "c": 2.0}}
    assert read_run(run).topics == ["1"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 0 a 1\n1 0 a\n", "line 2 has 3 columns, not 4"),
        ("# c\n1 0 a 1 x\n", "line 2 has 5 columns, not 4"),
        ("1 0 a 1.5\n", "line 1 has the grade '1.5'"),
        ("1 0 a 1\n2 0 a 1\n\n1 7 a 0\n", "line 4 names the document 'a' for topic '1' a second"),
        ("1 0 a -1\n1 0 a 1\n", "line 2 names the document 'a'"),
        ("\n# only a comment\n", "holds no judgement"),
    ],
)
def test_bad_qrels(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.qrels"
    path.write_text(text)
    with pytest.raises(rve.FormatError, match=f"{re.escape(str(path))}: {re.escape(message)}"):
        read_qrels(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 Q0 a 1 0.5\n", "line 1 has 5 columns, not 6"),
        ("1 Q0 a 1 0.5 t\n1 Q0 b 2 high t\n", "line 2 has the score 'high'"),
        ("1 Q0 a 1 nan t\n", "line 1 has the score 'nan'"),
        ("1 Q0 a 1 1_0 t\n", "line 1 has the score '1_0'"),
        ("1 Q0 a 1 1e999 t\n", "line 1 has the score '1e999'"),
        ("1 Q0 a 1 3 t\n2 Q0 a 1 3 t\n1 Q0 a 2 2 t\n", "line 3 names the document 'a'"),
        ("", "holds no answer"),
    ],
)
def test_bad_runs(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.run"
    path.write_text(text)
    with pytest.raises(rve.FormatError, match=f"{re.escape(str(path))}: {re.escape(message)}"):
        read_run(path)


def test_files_that_are_no_text(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="expected the run file"):
        read_run(tmp_path / "absent.run")
    path = tmp_path / "binary.run"
    path.write_bytes(b"1 Q0 \xff\xfe")
    with pytest.raises(rve.FormatError, match="not UTF-8"):
        read_run(path)
    with pytest.raises(rve.FormatError, match="cannot be read"):
        read_qrels(tmp_path)
