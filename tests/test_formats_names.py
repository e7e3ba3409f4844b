"""Grammars of names: what each gives, and what does not fit."""

from __future__ import annotations

import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reid_vpr_eval.errors import FormatError, ProtocolError
from reid_vpr_eval.formats import GRAMMARS, parse_name, parse_names

REAL = "@0545981.19@4184971.70@10@S@037.81098@-122.47762@rtCs5-P_9N@@174@@@@201409@@.jpg"


@pytest.mark.parametrize("name", sorted(GRAMMARS))
def test_every_grammar_reads_its_own_example(name: str) -> None:
    grammar = GRAMMARS[name]
    assert set(grammar.columns) <= set(parse_name(grammar.example, name))
    assert set(grammar.columns) <= set(parse_name(f"a@b/7_c1/{grammar.example}", name))


@pytest.mark.parametrize(
    ("grammar", "name", "expected"),
    [
        ("market", "0002_c1s1_000451_03.jpg", (2, 1)),
        ("market", "-1_c3s2_068417_01.jpg", (-1, 3)),
        ("market", "0000_c6s3_096117_02.jpg", (0, 6)),
        ("market", "0002_c1.jpg", (2, 1)),
        ("duke", "0001_c2_f0046182.jpg", (1, 2)),
        ("veri", "0002_c002_00030600_0.jpg", (2, 2)),
        ("veri", "0776_c020_00030600_0.jpg", (776, 20)),
        ("msmt", "0000/0000_000_01_0303morning_0015_0.jpg", (0, 1)),
        ("msmt", "3059/3059_066_15_0114noon_0986_2_ex.jpg", (3059, 15)),
    ],
)
def test_label_and_camera_are_integers(grammar: str, name: str, expected: tuple[int, int]) -> None:
    fields = parse_name(name, grammar)
    assert (fields["label"], fields["camera"]) == expected
    assert type(fields["label"]) is int


def test_sequence_and_frame_where_the_name_has_them() -> None:
    assert parse_name("0002_c1s4_000451_03.jpg", "market")["sequence"] == 4
    assert parse_name("0001_c2_f0046182.jpg", "duke")["frame"] == 46182
    columns, unmatched = parse_names(["0002_c1s4_000451_03.jpg", "0003_c2.jpg"], "market")
    assert columns["sequence"] == [4, None]
    assert unmatched == []


@pytest.mark.parametrize(
    ("grammar", "name"),
    [
        ("market", "picture.jpg"),
        ("market", "0002_c12_000451.jpg"),  # two digits are not camera 1
        ("market", "0002_c1/picture.jpg"),
        ("veri", "0002_c02_00030600.jpg"),
        ("msmt", "0000_000.jpg"),
        ("msmt", "0000_000_morning_1.jpg"),
        ("utm", "548.5,90.2.jpg"),
        ("utm", "@548.5@.jpg"),
        ("utm", "@@90.5@.jpg"),
        ("utm", "@x@90.5@.jpg"),
        ("utm", "@nan@90.5@.jpg"),
        ("utm", "@1_0@90.5@.jpg"),
        ("utm", "@1@2@61@S@.jpg"),
        ("utm", "@1@2@@S@.jpg"),
        ("utm", "@1@2@17@North@.jpg"),
        ("utm", "@1@2@17@T@somewhere@.jpg"),
        ("utm", "home/@1@2@/picture.jpg"),
    ],
)
def test_a_name_that_does_not_fit_is_an_error(grammar: str, name: str) -> None:
    with pytest.raises(FormatError, match=f"1 of 1 name does not fit the grammar '{grammar}'"):
        parse_name(name, grammar)


class TestPlaces:
    def test_a_real_name(self) -> None:
        assert parse_name(REAL, "utm") == {
            "east": 545981.19,
            "north": 4184971.7,
            "zone": "10S",
            "lat": 37.81098,
            "lon": -122.47762,
            "group": "rtCs5-P_9N",
            "heading": 174.0,
            "time": "201409",
        }

    def test_only_the_first_two_are_required(self) -> None:
        assert parse_name("@0@2.4@@@@@1@@@@@@@@.jpg", "utm") == {
            "east": 0.0,
            "north": 2.4,
            "group": "1",
        }
        assert parse_name("@5.5@-4206036.25.jpg", "utm") == {"east": 5.5, "north": -4206036.25}
        assert parse_name("@5@7@.PNG", "utm") == {"east": 5.0, "north": 7.0}

    def test_the_file_name_is_split_not_the_path(self) -> None:
        assert parse_name("me@lab/@9@8@7/" + REAL, "utm")["east"] == 545981.19

    def test_a_zone_without_letter(self) -> None:
        assert parse_name("@1@2@07@@.jpg", "utm")["zone"] == "7"
        assert parse_name("@1@2@17@t@.jpg", "utm")["zone"] == "17T"

    def test_a_note_may_hold_the_separator(self) -> None:
        name = "@1@2@@@@@@@@@@@@night@rain@.jpg"
        assert parse_name(name, "utm")["note"] == "night@rain"

    text = st.text(string.ascii_letters + string.digits + "-_ ", max_size=8)

    @given(
        east=st.integers(0, 10**8),
        north=st.integers(-(10**9), 10**9),
        zone=st.one_of(st.none(), st.integers(1, 60)),
        letter=st.sampled_from(["", *"CDEFGHJKLMNPQRSTUVWX"]),
        lat=st.one_of(st.none(), st.integers(-90 * 10**5, 90 * 10**5)),
        heading=st.one_of(st.none(), st.integers(-360, 720)),
        pano=text,
        time=st.one_of(st.just(""), st.text(string.digits, min_size=1, max_size=14)),
        note=text,
        parent=st.sampled_from(["", "queries/", "me@lab/@1@2@/"]),
    )
    def test_round_trip(
        self,
        east: int,
        north: int,
        zone: int | None,
        letter: str,
        lat: int | None,
        heading: int | None,
        pano: str,
        time: str,
        note: str,
        parent: str,
    ) -> None:
        """Writing fields as the convention says and reading them gives the fields."""
        letter = letter if zone is not None else ""
        written = [
            f"{east / 100:010.2f}",
            f"{north / 100:010.2f}",
            "" if zone is None else f"{zone:02d}",
            letter,
            "" if lat is None else f"{lat / 10**5:09.5f}",
            "",
            pano,
            "",
            "" if heading is None else f"{heading:03d}",
            "",
            "",
            "",
            time,
            note,
        ]
        expected: dict[str, Any] = {"east": east / 100, "north": north / 100}
        expected |= {} if zone is None else {"zone": f"{zone}{letter}"}
        expected |= {} if lat is None else {"lat": lat / 10**5}
        expected |= {} if heading is None else {"heading": float(heading)}
        expected |= {key: v for key, v in (("group", pano), ("time", time), ("note", note)) if v}
        assert parse_name(f"{parent}@{'@'.join(written)}@.jpg", "utm") == expected


class TestRegularExpressions:
    def test_is_searched_in_the_whole_path(self) -> None:
        fields = parse_name(
            "top/Latin/character26/0708_19.png", r"(?P<label>\w+/\w+)/\d+_(?P<cam>\d+)"
        )
        assert fields == {"label": "Latin/character26", "cam": 19}

    def test_a_group_of_digits_is_integers_only_if_all_are(self) -> None:
        names = ["0002_1.jpg", "-1_2.jpg", "0003_x.jpg"]
        columns, unmatched = parse_names(names, r"(?P<label>-?\d+)_(?P<camera>\w)")
        assert columns == {"label": [2, -1, 3], "camera": ["1", "2", "x"]}
        assert unmatched == []

    def test_digits_beyond_64_bits_stay_text(self) -> None:
        assert parse_name("9" * 30, r"(?P<label>\d+)") == {"label": "9" * 30}

    def test_positions_are_numbers(self) -> None:
        fields = parse_name("37.5_-122.jpg", r"(?P<lat>[-\d.]+)_(?P<lon>[-\d]+)")
        assert fields == {"lat": 37.5, "lon": -122.0}
        assert type(fields["lon"]) is float
        with pytest.raises(FormatError, match="group 'lat' of the names found 'north'"):
            parse_name("north", r"(?P<lat>\w+)")

    def test_groups_that_match_nothing_are_missing(self) -> None:
        columns, _ = parse_names(["a", "a7"], r"(?P<label>a)(?P<camera>\d)?")
        assert columns["camera"] == [None, 7]

    @pytest.mark.parametrize(
        ("grammar", "message"),
        [
            ("markett", "unknown grammar.*markett.*market, duke"),
            (r"(?P<label>\d+", "no regular expression.*backslash"),
            (r"(\d+)_c(\d)", "no named group"),
            (r"(?P<path>.*)", "group for the path"),
        ],
    )
    def test_what_cannot_be_used_says_how_to_mend_it(self, grammar: str, message: str) -> None:
        with pytest.raises(ProtocolError, match=message):
            parse_name("0001.jpg", grammar)
