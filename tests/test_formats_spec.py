"""columns, where and aliases: what a protocol says of one side."""

from __future__ import annotations

from typing import Any

import pytest

from reid_vpr_eval.errors import AlignmentError, FormatError, ProtocolError
from reid_vpr_eval.formats import SideSpec, apply_spec
from reid_vpr_eval.samples import Samples

SAMPLES = Samples.from_columns(
    floor=["a", "b", "a"],
    clip=[3, None, 1],
    good=[True, False, True],
    score=[0.5, 1.0, 1.5],
    label=[7, 8, 9],
)


def applied(**spec: Any) -> tuple[Samples, list[int]]:
    samples, rows = apply_spec(SAMPLES, SideSpec(**spec), side="query")
    return samples, rows.tolist()


def test_nothing_asked_changes_nothing() -> None:
    samples, rows = applied()
    assert samples.fingerprint() == SAMPLES.fingerprint()
    assert rows == [0, 1, 2]


class TestColumns:
    def test_the_mapping_wins_and_the_source_stays(self) -> None:
        samples, _ = applied(columns={"label": "floor"})
        assert samples.values("label").tolist() == ["a", "b", "a"]
        assert samples.values("floor").tolist() == ["a", "b", "a"]

    def test_missing_values_stay_missing_and_integers_integers(self) -> None:
        samples, _ = applied(columns={"camera": "clip"})
        assert samples.missing("camera").tolist() == [False, True, False]
        kept, _ = applied(columns={"camera": "clip"}, where={"floor": "a"})
        assert kept.keys("camera").tolist() == [3, 1]

    def test_two_columns_can_be_exchanged(self) -> None:
        samples = Samples.from_columns(label=[1, 2], camera=[3, 4])
        spec = SideSpec(columns={"label": "camera", "camera": "label"})
        swapped, _ = apply_spec(samples, spec, side="query")
        assert swapped.values("label").tolist() == [3, 4]
        assert swapped.values("camera").tolist() == [1, 2]

    def test_an_absent_source_names_the_columns_there_are(self) -> None:
        with pytest.raises(FormatError, match=r"query: .*'roof'.*clip, floor, good, label, score"):
            applied(columns={"label": "roof"})

    def test_ids_are_mapped_after_where(self) -> None:
        samples, _ = applied(columns={"id": "floor"}, where={"label": [8, 9]})
        assert samples.ids is not None
        assert samples.ids.tolist() == ["b", "a"]
        with pytest.raises(AlignmentError, match="more than once"):
            applied(columns={"id": "floor"})


class TestWhere:
    @pytest.mark.parametrize(
        ("where", "expected"),
        [
            ({"floor": "a"}, [0, 2]),
            ({"floor": ["a", "b", "never"]}, [0, 1, 2]),
            ({"floor": "a", "label": [8, 9]}, [2]),
            ({"clip": 3}, [0]),
            ({"clip": [1, 3]}, [0, 2]),
            ({"good": True}, [0, 2]),
            ({"score": 1}, [1]),
            ({"score": [0.5, 1.5]}, [0, 2]),
        ],
    )
    def test_keeps_the_rows_that_match(self, where: dict[str, Any], expected: list[int]) -> None:
        samples, rows = applied(where=where)
        assert rows == expected
        assert samples.values("label").tolist() == [7 + row for row in expected]

    @pytest.mark.parametrize(
        "where",
        [
            {"label": "7"},
            {"label": True},
            {"label": 7.0},
            {"label": [7, "8"]},
            {"floor": 1},
            {"good": 1},
            {"good": "true"},
            {"score": "0.5"},
            {"floor": {"a": 1}},
        ],
    )
    def test_a_value_of_another_kind_is_an_error_not_a_miss(self, where: dict[str, Any]) -> None:
        with pytest.raises(ProtocolError, match=r"query: where = .*for example"):
            applied(where=where)

    def test_no_row_left_says_what_occurs(self) -> None:
        with pytest.raises(FormatError, match=r"no row of 3 has floor = 'c'.*floor: a, b"):
            applied(where={"floor": "c"})
        with pytest.raises(FormatError, match="no row"):
            applied(where={"floor": []})

    def test_an_absent_column_is_an_error(self) -> None:
        with pytest.raises(FormatError, match="needs the column 'split'"):
            applied(where={"split": "query"})

    def test_sees_values_before_aliases(self) -> None:
        samples, rows = applied(where={"label": 7}, aliases={"label": {"7": 1}})
        assert rows == [0]
        assert samples.values("label").tolist() == [1]


class TestAliases:
    @pytest.mark.parametrize("key", ["3", 3])
    def test_keys_of_an_integer_column_may_be_text(self, key: object) -> None:
        samples, _ = applied(aliases={"clip": {key: 2, "99": 4}})
        assert samples.table["clip"].tolist() == [2, None, 1]

    def test_strings(self) -> None:
        samples, _ = applied(aliases={"floor": {"a": "ground"}})
        assert samples.values("floor").tolist() == ["ground", "b", "ground"]

    def test_a_whole_column_may_change_its_kind(self) -> None:
        samples, _ = applied(
            columns={"modality": "label"}, aliases={"modality": {"7": "rgb", "8": "ir", "9": "rgb"}}
        )
        assert samples.values("modality").tolist() == ["rgb", "ir", "rgb"]

    def test_a_part_of_it_may_not(self) -> None:
        with pytest.raises(FormatError, match="mixes kinds"):
            applied(aliases={"label": {"7": "seven"}})

    @pytest.mark.parametrize(
        "aliases", [{"label": {"seven": 1}}, {"floor": {1: "b"}}, {"score": {"0.5": 1.0}}]
    )
    def test_a_key_of_another_kind_is_an_error(self, aliases: dict[str, Any]) -> None:
        with pytest.raises(ProtocolError, match="query: aliases"):
            applied(aliases=aliases)


class TestNames:
    PATHS = Samples.from_columns(path=["0002_c1s1_000451_03.jpg", "-1_c3s1_000451_03.jpg"])

    def test_are_read_from_the_path_where_columns_lack(self) -> None:
        samples, _ = apply_spec(self.PATHS, SideSpec(names="market"), side="query")
        assert samples.values("label").tolist() == [2, -1]
        assert samples.values("camera").tolist() == [1, 3]

    def test_never_overwrite_a_column(self) -> None:
        given = self.PATHS.with_columns(label=[5, 6])
        samples, _ = apply_spec(given, SideSpec(names="market"), side="query")
        assert samples.values("label").tolist() == [5, 6]
        assert samples.values("camera").tolist() == [1, 3]

    def test_paths_of_another_form_are_left_alone(self) -> None:
        given = Samples.from_columns(path=["a.jpg"], label=[3])
        samples, _ = apply_spec(given, SideSpec(names="market"), side="query")
        assert samples.column_names == ("label", "path")

    def test_a_mixture_is_an_error(self) -> None:
        given = Samples.from_columns(path=["0002_c1.jpg", "b.jpg"])
        with pytest.raises(FormatError, match=r"1 of 2 names.*'b.jpg'"):
            apply_spec(given, SideSpec(names="market"), side="query")
