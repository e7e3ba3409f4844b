"""Protocol files: schema, hashes, errors with their place."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

import reid_vpr_eval as rve
from reid_vpr_eval.checks import check_metrics
from reid_vpr_eval.formats import GRAMMARS, parse_name
from reid_vpr_eval.protocol import Protocol, protocol_folder
from reid_vpr_eval.summary import spelled

NAMES = rve.list_protocols()
MINIMAL: dict[str, Any] = {"name": "mine", "relevance": {"kind": "label"}}


@pytest.mark.parametrize("name", NAMES)
def test_shipped_protocols_are_complete(name: str) -> None:
    protocol = rve.load_protocol(name)
    assert protocol.name == name == name.lower()
    assert protocol.title
    assert protocol.task
    assert protocol.reference or name in ("labels", "places")
    check_metrics(protocol)
    for side in (protocol.query, protocol.gallery):
        assert side.names is None or side.names in GRAMMARS or "(?P<" in side.names
    assert all(spelled(metric, protocol) for metric in protocol.report.metrics)


@pytest.mark.parametrize("name", NAMES)
def test_resolved_protocols_read_back_the_same(name: str, tmp_path: Path) -> None:
    protocol = rve.load_protocol(name)
    protocol.save(tmp_path / "a.toml")
    again = Protocol.load(tmp_path / "a.toml")
    again.save(tmp_path / "b.toml")
    assert again.resolved() == protocol.resolved()
    assert again.judging_hash == protocol.judging_hash
    assert again.reporting_hash == protocol.reporting_hash
    assert (tmp_path / "a.toml").read_bytes() == (tmp_path / "b.toml").read_bytes()


def test_the_eight_first_protocols_are_there() -> None:
    wanted = {"market1501", "dukemtmc-reid", "veri776", "msmt17", "pitts30k-test", "tokyo247",
              "labels", "places"}  # fmt: skip
    assert wanted <= set(NAMES)


def test_hashes_ignore_order_comments_names_and_counts() -> None:
    text = (protocol_folder() / "market1501.toml").read_text(encoding="utf-8")
    content = tomllib.loads(text)
    base = rve.load_protocol("market1501")
    shuffled = Protocol.from_dict(dict(reversed(content.items())))
    renamed = Protocol.from_dict({**content, "name": "other", "title": "T", "reference": "R",
                                  "note": "N", "version": 7, "expected": {}})  # fmt: skip
    for other in (shuffled, renamed):
        assert other.judging_hash == base.judging_hash
        assert other.reporting_hash == base.reporting_hash


@pytest.mark.parametrize(
    ("table", "key", "value"),
    [("relevance", "different", []), ("relevance", "failing", "negative"),
     ("evaluation", "no_positive", "zero"), ("gallery", "folder", "elsewhere"),
     ("query", "where", {"split": "a"})],
)  # fmt: skip
def test_what_judges_changes_the_judging_hash_alone(table: str, key: str, value: Any) -> None:
    text = (protocol_folder() / "market1501.toml").read_text(encoding="utf-8")
    content = tomllib.loads(text)
    content[table][key] = value
    changed, base = Protocol.from_dict(content), rve.load_protocol("market1501")
    assert changed.judging_hash != base.judging_hash
    assert changed.reporting_hash == base.reporting_hash


def test_what_is_reported_changes_the_reporting_hash_alone() -> None:
    text = (protocol_folder() / "market1501.toml").read_text(encoding="utf-8")
    content = tomllib.loads(text)
    content["report"]["metrics"] = ["mAP"]
    changed, base = Protocol.from_dict(content), rve.load_protocol("market1501")
    assert changed.judging_hash == base.judging_hash
    assert changed.reporting_hash != base.reporting_hash


def test_a_default_written_out_is_the_same_protocol() -> None:
    long = {**MINIMAL, "relevance": {"kind": "label", "self": "exclude", "different": []},
            "evaluation": {"no_positive": "skip"}}  # fmt: skip
    assert Protocol.from_dict(long).judging_hash == Protocol.from_dict(MINIMAL).judging_hash


def test_policies_default_by_kind() -> None:
    assert Protocol.from_dict(MINIMAL).no_positive == "skip"
    places = {"name": "p", "relevance": {"kind": "within"}}
    assert Protocol.from_dict(places).no_positive == "zero"
    assert Protocol.from_dict(places).relevance.self == "keep"
    assert Protocol.from_dict(MINIMAL).relevance.self == "exclude"


def with_(table: str, **keys: Any) -> dict[str, Any]:
    base = {**MINIMAL, table: {**MINIMAL.get(table, {}), **keys}}
    return {k: v for k, v in base.items() if v is not None}


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ({"name": "x"}, "relevance: is needed"),
        ({"relevance": {"kind": "label"}}, "name: is needed"),
        ({**MINIMAL, "name": "Not A Name"}, "name: "),
        ({**MINIMAL, "reprot": {}}, "reprot: unknown key; did you mean 'report'"),
        (with_("relevance", kind="lable"), "relevance.kind: one of label, within"),
        (with_("relevance", diferent=["camera"]), "did you mean 'different'"),
        (with_("relevance", failing="drop"), "relevance.failing: "),
        (with_("relevance", ignore=[{"galery": {}}]), "did you mean 'gallery'"),
        (with_("relevance", kind="within", radius=-1), "relevance.radius: "),
        (with_("relevance", kind="within", radius="25"), "relevance.radius: "),
        (with_("relevance", kind="within", different=["camera"]), "unknown key"),
        (with_("evaluation", no_positive="drop"), "evaluation.no_positive: "),
        (with_("report", spelling="Rank"), "report.spelling: "),
        (with_("report", metrics=[]), "report.metrics: "),
        (with_("report", interval={"level": 2.0}), "report.interval.level: "),
        (with_("expected", n_query=-3), "expected.n_query: "),
        (with_("expected", n_querys=3), "did you mean 'n_query'"),
        (with_("query", where={"split": 1.5}), "query.where.split"),
        ({**MINIMAL, "status": "gone"}, "status: "),
    ],
)
def test_faults_are_named_with_their_place(content: dict[str, Any], fault: str) -> None:
    with pytest.raises(rve.ProtocolError) as caught:
        Protocol.from_dict(content, source="mine.toml")
    assert "mine.toml is no valid protocol" in str(caught.value)
    assert fault in str(caught.value)
    assert "pydantic" not in str(caught.value)


def test_every_key_is_documented() -> None:
    def models(model: Any) -> list[Any]:
        found = [model]
        for field in model.model_fields.values():
            for part in getattr(field.annotation, "__args__", (field.annotation,)):
                if hasattr(part, "model_fields"):
                    found += models(part)
        return found

    for model in models(Protocol):
        for name, field in model.model_fields.items():
            if name != "kind":
                assert field.description, f"{model.__name__}.{name}"


def test_unknown_and_damaged_files(tmp_path: Path) -> None:
    with pytest.raises(rve.ProtocolError, match="did you mean market1501"):
        rve.load_protocol("market-1501")
    with pytest.raises(rve.ProtocolError, match="no such protocol file"):
        rve.load_protocol(tmp_path / "absent.toml")
    (tmp_path / "a.toml").write_text("name = 'x'\n[relevance\n")
    with pytest.raises(rve.ProtocolError, match="line 2"):
        rve.load_protocol(tmp_path / "a.toml")
    (tmp_path / "b.toml").write_bytes(b"name = '\xff'")
    with pytest.raises(rve.ProtocolError, match="not valid TOML"):
        rve.load_protocol(str(tmp_path / "b.toml"))


def test_unknown_metrics_are_found_before_anything_else() -> None:
    protocol = Protocol.from_dict(with_("report", metrics=["mAP", "Recall@5"]))
    with pytest.raises(rve.ProtocolError, match="IR-recall@5"):
        check_metrics(protocol)


def test_shipped_grammars_read_their_own_examples() -> None:
    for name, grammar in GRAMMARS.items():
        assert parse_name(grammar.example, name)
