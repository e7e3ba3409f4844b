"""The six text formats, exactly."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from reid_vpr_eval import FormatError, ProtocolError, Result
from reid_vpr_eval.metrics import MetricValues, parse
from reid_vpr_eval.metrics.grammar import METRICS
from reid_vpr_eval.report import FORMATS, render
from reid_vpr_eval.report.tables import metric_rows
from reid_vpr_eval.uncertainty import Intervals
from report_results import people, places

NUMBERS = {
    "mAP": 0.8449,
    "CMC@1": 0.942,
    "CMC@5": 0.98,
    "CMC@10": 0.9876,
    "CMC@20": 0.99951,
    "MeanR": 3.25,
}


def fixed(numbers: Mapping[str, float] = NUMBERS, title: str = "Market") -> Result:
    """Return a result that reports these numbers."""
    made = people()
    protocol = made.protocol.model_copy(
        update={
            "title": title,
            "report": made.protocol.report.model_copy(update={"spelling": "Rank-{k}"}),
        }
    )
    return replace(made, protocol=protocol, metrics=MetricValues(numbers), intervals=Intervals({}))


def test_there_are_six_formats() -> None:
    assert list(FORMATS) == ["table", "json", "tsv", "latex", "torchreid", "vpr"]


def test_an_unknown_format_is_refused_with_the_known_ones() -> None:
    with pytest.raises(FormatError, match="'xml': one of table, json, tsv"):
        render(fixed(), "xml")


def test_table_is_the_result_itself() -> None:
    assert render(fixed()) == str(fixed())


def test_json_is_the_document() -> None:
    assert json.loads(render(fixed(), "json")) == json.loads(json.dumps(fixed().document()))


def test_tsv_has_full_precision() -> None:
    made = people()
    lines = render(made, "tsv").split("\n")
    assert [line.split("\t")[0] for line in lines] == list(made.metrics)
    assert [float(line.split("\t")[1]) for line in lines] == list(made.metrics.values())
    assert render(fixed({"mAP": 1 / 3}), "tsv") == "mAP\t0.3333333333333333"


def test_latex_is_a_booktabs_table() -> None:
    assert render(fixed(), "latex") == (
        "\\begin{tabular}{lrrrrrr}\n"
        "\\toprule\n"
        "Protocol & mAP & Rank-1 & Rank-5 & Rank-10 & Rank-20 & MeanR \\\\\n"
        "\\midrule\n"
        "Market & 84.5 & 94.2 & 98.0 & 98.8 & 100.0 & 3.2 \\\\\n"
        "\\bottomrule\n"
        "\\end{tabular}"
    )


def test_a_loaded_result_is_printed_in_the_order_of_its_protocol(tmp_path: Path) -> None:
    made = people()
    made.save(tmp_path)
    assert render(Result.load(tmp_path), "tsv") == render(made, "tsv")
    assert render(Result.load(tmp_path), "latex") == render(made, "latex")


def test_latex_escapes_every_mark() -> None:
    text = render(fixed({"mAP": 1.0}, "a_b & 5% $x$ #1 {c} ~^ \\d <e>\nf"), "latex")
    assert (
        r"a\_b \& 5\% \$x\$ \#1 \{c\} \textasciitilde{}\textasciicircum{} "
        r"\textbackslash{}d \textless{}e\textgreater{} f & 100.0"
    ) in text


def test_torchreid_lines() -> None:
    assert render(fixed(), "torchreid") == (
        "mAP: 84.5%\nRank-1  : 94.2%\nRank-5  : 98.0%\nRank-10 : 98.8%\nRank-20 : 100.0%"
    )


def test_torchreid_takes_what_is_absent_from_the_curve() -> None:
    made = people()
    at_20 = made.curve("CMC", 20)["value"].iloc[-1]
    assert "CMC@20" not in list(made.metrics)
    assert render(made, "torchreid").endswith(f"Rank-20 : {at_20:.1%}")


def test_torchreid_without_map_has_no_such_line() -> None:
    assert render(places(), "torchreid").startswith("Rank-1  : ")


def test_a_macro_average_is_not_mixed_with_the_curve() -> None:
    made = fixed({"CMC@1": 0.5})
    evaluation = made.protocol.evaluation.model_copy(update={"macro": ["label"]})
    macro = replace(made, protocol=made.protocol.model_copy(update={"evaluation": evaluation}))
    assert render(macro, "torchreid") == "Rank-1  : 50.0%"


def test_vpr_line() -> None:
    assert render(fixed(), "vpr") == "R@1: 94.2, R@5: 98.0, R@10: 98.8, R@20: 100.0"


def test_vpr_takes_the_reported_cut_offs() -> None:
    text = render(fixed({"CMC@100": 1.0, "CMC@2": 0.5, "CMC@1%": 0.7}), "vpr")
    assert text == "R@2: 50.0, R@100: 100.0"
    assert render(fixed({"mAP": 0.5}), "vpr").startswith("R@1: ")


@pytest.mark.parametrize("name", METRICS)
def test_what_a_metric_means_is_a_whole_phrase(name: str) -> None:
    """No list and no parenthesis is cut in the middle."""
    for cut in ("", "@5", "=0.1"):
        with suppress(ProtocolError):
            canonical = str(parse(f"{name}{cut}"))
            break
    (row,) = metric_rows(fixed({canonical: 0.5}))
    assert row.meaning.count("(") == row.meaning.count(")")
    assert not re.search(r"\bat 1$|\bor$|\band$", row.meaning)
