"""The table of one side: every kind of column, what is refused, and that nothing leaks in."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reid_vpr_eval.columns import ALIASES
from reid_vpr_eval.errors import AlignmentError, FormatError
from reid_vpr_eval.samples import Samples

BIG = 2**60 + 1


class Tensor:
    """What a tensor of another library offers: an array, in the signature of old versions."""

    def __init__(self, values: Any) -> None:
        self.array = np.asarray(values)

    def __array__(self, dtype: Any = None) -> npt.NDArray[Any]:
        return self.array if dtype is None else self.array.astype(dtype)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ([7, -1, BIG], [7, -1, BIG]),
        ((1, 2), [1, 2]),
        (range(3), [0, 1, 2]),
        (np.array([1, 2], np.uint8), [1, 2]),
        (np.array([1, 2], ">i4"), [1, 2]),
        (np.array([2**63 - 1], np.uint64), [2**63 - 1]),
        ([1.0, -2.0], [1, -2]),
        (np.array([1, 2**24 - 1], np.float32), [1, 2**24 - 1]),
        (np.array([2047], np.float16), [2047]),
        (["a", "ü", "-1"], ["a", "ü", "-1"]),
        ([b"a", "b"], ["a", "b"]),
        (np.array([b"a", "ü".encode()]), ["a", "ü"]),
        (np.array(["a", "bc"], dtype=object), ["a", "bc"]),
        (np.array([1, np.int8(2)], dtype=object), [1, 2]),
        (pd.Series([3, 4], index=[9, 8]), [3, 4]),
        (pd.Series(["x", "y"]), ["x", "y"]),
        (pd.Series([BIG, 5], dtype="Int64"), [BIG, 5]),
        (pd.Series([5, 6], dtype="UInt8"), [5, 6]),
        (pd.Series(["x", "y"], dtype="category"), ["x", "y"]),
        (pd.Index([1, 2]), [1, 2]),
        (Tensor([5, 6]), [5, 6]),
    ],
)
def test_labels_of_every_kind(given: Any, kept: list[Any]) -> None:
    values = Samples.from_columns(label=given).values("label")
    assert values.tolist() == kept
    assert values.dtype.kind in "iU"
    assert values.dtype.kind != "i" or values.dtype == np.int64


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([1.0, 1.5, 2.5], r"not whole numbers in 2 rows \(row 1: 1\.5\)"),
        ([1.0, np.nan], r"'label' has no value in 1 row \(rows 1\)"),
        ([None, "a"], r"no value in 1 row \(rows 0\)"),
        (pd.Series([1, None, None], dtype="Int64"), r"no value in 2 rows \(rows 1, 2\)"),
        ([np.inf, 1.0], r"not whole numbers in 1 row \(row 0: inf\)"),
        ([True, False], "booleans"),
        (np.array([True]), "booleans"),
        ([1, "1"], r"mixes kinds of values: integer in row 0 \(1\), string in row 1 \('1'\)"),
        ([1, True], "mixes kinds of values: integer in row 0 .* boolean in row 1"),
        ([1, [2]], "mixes kinds .* a list in row 1"),
        ([[1], [2]], "holds a list in row 0"),
        ([(1, 2), (3, 4)], "holds a tuple in row 0"),
        (np.ones((2, 2)), r"shape \(2, 2\): one value a row"),
        (5, r"shape \(\)"),
        ("abc", r"shape \(\)"),
        (np.array([1 + 2j]), "type complex128"),
        (pd.to_datetime(pd.Series(["2020-01-01"])), "holds a Timestamp"),
        (np.array([2**63], np.uint64), "beyond 64 bits"),
        ([2**63], "beyond 64 bits"),
        ([-(2**63) - 1], "beyond 64 bits"),
        ([2.0**53], "not whole numbers"),
        ([BIG, 1.0], "not whole numbers in 1 row"),
        (np.array([5, 2**24 + 2], np.float32), r"float32 .* above 2\^24"),
        (list(np.array([5, 2**24 + 2], np.float32)), r"float32 .* above 2\^24"),
        (pd.Series([5, 2**24 + 2], dtype="Float32"), r"float32 .* above 2\^24"),
        (np.array([5, 2050], np.float16), r"float16 .* above 2\^11"),
        (np.array([b"\xff"]), "no UTF-8 text"),
        ([b"\xff"], "no UTF-8 text"),
    ],
)
def test_labels_that_are_refused(given: Any, says: str) -> None:
    with pytest.raises(FormatError, match=says):
        Samples.from_columns(label=given)


def test_integers_beyond_2_53_survive_missing_neighbours() -> None:
    column = pd.Series([BIG, None, BIG + 1], dtype="Int64")
    samples = Samples(pd.DataFrame({"camera": column}))
    assert samples.missing("camera").tolist() == [False, True, False]
    assert samples.take([0, 2]).values("camera").tolist() == [BIG, BIG + 1]
    assert samples.table["camera"].tolist() == [BIG, None, BIG + 1]


@pytest.mark.parametrize(
    "given",
    [
        [1.5, None, 2.0],
        [1.5, np.nan, 2.0],
        np.array([1.5, np.nan, 2.0]),
        np.ma.array([1.5, 7.0, 2.0], mask=[False, True, False]),
        pd.Series([1.5, None, 2.0], dtype="Float64"),
        pd.Series([1.5, None, 2.0], dtype="Float32"),
        pd.Series([1.5, None, 2.0], dtype=object),
    ],
)
def test_missing_values_are_allowed_until_used(given: Any) -> None:
    samples = Samples.from_columns(east=given, label=[1, 2, 3])
    assert samples.missing("east").tolist() == [False, True, False]
    with pytest.raises(FormatError, match=r"'east' has no value in 1 of 3 rows \(rows 1\)"):
        samples.values("east")
    with pytest.raises(FormatError, match="'utm_east' has no value"):
        samples.keys("utm_east")
    assert samples.take(~samples.missing("east")).values("east").tolist() == [1.5, 2.0]
    same = Samples.from_columns(label=[1, 2, 3], east=[1.5, None, 2.0])
    assert samples.fingerprint() == same.fingerprint()


def test_whole_coordinates_with_a_gap_are_the_same_as_fractional_ones() -> None:
    one, other = (Samples.from_columns(lat=column) for column in ([1, None], [1.0, np.nan]))
    assert one.fingerprint() == other.fingerprint()


def test_coordinates_are_float64_and_finite() -> None:
    samples = Samples.from_columns(lat=[1, 2], lon=np.array([3, 4], np.float32), heading=[0, 1])
    assert {samples.values(name).dtype.str for name in ("lat", "lon", "heading")} == {"<f8"}
    with pytest.raises(FormatError, match="'north' is infinite in rows 1, 2"):
        Samples.from_columns(north=[0.0, np.inf, -np.inf])
    with pytest.raises(FormatError, match=r"'lat' holds strings, .* \['48\.1'\]: numbers"):
        Samples.from_columns(lat=["48.1"])
    with pytest.raises(FormatError, match="'lat' holds bool"):
        Samples.from_columns(lat=[True])


def test_other_columns_are_kept_as_they_are() -> None:
    samples = Samples.from_columns(weather=["rain"], share=[0.25], night=[True], frame=[7])
    assert samples.values("share").tolist() == [0.25]
    assert samples.values("night").tolist() == [True]
    assert samples.keys("night").tolist() == [1]
    with pytest.raises(FormatError, match="'share' holds values that are not whole"):
        samples.keys("share")
    assert Samples.from_columns(share=[2.0]).keys("share").dtype == np.int64


def test_aliases_are_read_once() -> None:
    samples = Samples.from_columns(pid=[7], camid=[1], utm_east=[2.0], longitude=[3.0], image=["a"])
    assert samples.column_names == ("camera", "east", "label", "lon", "path")
    assert "pid" in samples
    assert "label" in samples
    assert "lat" not in samples
    assert samples.values("identity").tolist() == [7]
    assert not set(ALIASES) & set(ALIASES.values())
    with pytest.raises(FormatError, match=r"no column 'cloth' .*clothes_id.*the samples have: cam"):
        samples.values("cloth")


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["label", "pid"], "'label' is given twice, as 'label' and as 'pid'"),
        (["camid", "cam"], "'camera' is given twice, as 'camid' and as 'cam'"),
        (["label", "label"], "'label' is given twice, as 'label' and as 'label'"),
        ([1, "1"], "'1' is given twice"),
    ],
)
def test_a_column_and_its_alias_together_are_refused(names: list[Any], says: str) -> None:
    with pytest.raises(FormatError, match=says):
        Samples(pd.DataFrame([[1, 2]], columns=names))


def test_ids_are_unique_and_complete() -> None:
    with pytest.raises(AlignmentError, match=r"2 ids occur .* a, b \(the first in rows 0, 3\)"):
        Samples.from_columns(id=["a", "b", "b", "a"])
    with pytest.raises(FormatError, match="'id' has no value in rows 1: every row"):
        Samples.from_columns(id=["a", None])
    samples = Samples.from_columns(id=["a", "b"])
    assert samples.ids is not None
    assert Samples.from_columns(label=[1]).ids is None
    with pytest.raises(AlignmentError, match="1 id occurs more than once"):
        samples.take([0, 0])
    with pytest.raises(AlignmentError, match="1 id occurs more than once"):
        samples.with_columns(id=[1, 1])


def test_columns_of_unequal_length_are_refused() -> None:
    with pytest.raises(AlignmentError, match=r"label: 2, camera: 3"):
        Samples.from_columns(label=[1, 2], camera=[1, 2, 3])
    with pytest.raises(AlignmentError, match="new columns have 1 row, the samples 2"):
        Samples.from_columns(label=[1, 2]).with_columns(camera=[1])


def table() -> Samples:
    return Samples.from_columns(
        id=["a", "bb", "ccc", "日本"], label=[3, 3, -1, BIG], east=[0.5, None, 2.0, 3.0],
        camera=pd.Series([1, None, 3, 4], dtype="Int64"), path=["x/é.jpg", None, "", "z"],
        night=[True, None, False, True],
    )  # fmt: skip


def test_take_positions_and_masks() -> None:
    samples = table()
    assert samples.take([2, 0]).values("id").tolist() == ["ccc", "a"]
    assert samples.take([-1]).values("label").tolist() == [BIG]
    mask = np.array([True, False, False, True])
    assert samples.take(mask).fingerprint() == samples.take([0, 3]).fingerprint()
    assert len(samples.take([])) == len(samples.take(np.zeros(4, bool))) == 0
    assert samples.take([]).column_names == samples.column_names
    assert samples.take([1]).missing("east").tolist() == [True]
    assert len(samples.without(samples).take([1, 2])) == 2
    for wrong in ([4], [True], [0.5]):
        with pytest.raises(IndexError):
            samples.take(wrong)


def test_with_and_without_columns() -> None:
    samples = table()
    fresh = samples.with_columns(pid=[1, 2, 3, 4], weather=["r"] * 4)
    assert fresh.values("label").tolist() == [1, 2, 3, 4]
    assert samples.values("label").tolist() == [3, 3, -1, BIG]
    assert fresh.without(["pid", "absent"]).column_names == (
        "camera", "east", "id", "night", "path", "weather",
    )  # fmt: skip
    assert samples.with_columns().fingerprint() == samples.fingerprint()
    assert Samples({}).with_columns(label=[1, 2]).n == 2


def test_the_fingerprint_depends_on_content_alone() -> None:
    samples = table()
    columns = {name: samples.table[name].tolist() for name in reversed(samples.column_names)}
    assert Samples(columns).fingerprint() == samples.fingerprint()
    assert samples.take([3, 0, 1, 2]).take([1, 2, 3, 0]).fingerprint() == samples.fingerprint()
    short = Samples.from_columns(id=["a"])
    assert samples.without(set(samples) - {"id"}).take([0]).fingerprint() == short.fingerprint()
    others = [
        samples.take([1, 0, 2, 3]),
        samples.without(["night"]),
        samples.with_columns(label=["3", "3", "-1", str(BIG)]),
        samples.with_columns(path=["x/é.jpg", "", "", "z"]),
        samples.with_columns(east=[0.5, None, 2.0, np.nextafter(3.0, 4)]),
        samples.without(["night"]).with_columns(nights=samples.table["night"]),
    ]
    prints = {other.fingerprint() for other in others} | {samples.fingerprint()}
    assert len(prints) == len(others) + 1


def test_names_of_files_that_are_no_unicode_are_kept(tmp_path: Path) -> None:
    samples = Samples.from_columns(path=["\udcff.jpg"])
    samples.save(tmp_path / "one.npz")
    assert Samples.load(tmp_path / "one.npz").fingerprint() == samples.fingerprint()


def test_saving_gives_the_same_bytes(tmp_path: Path) -> None:
    samples = table()
    samples.save(tmp_path / "one.npz")
    loaded = Samples.load(tmp_path / "one.npz")
    loaded.save(tmp_path / "two.npz")
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()
    assert loaded.fingerprint() == samples.fingerprint()
    pd.testing.assert_frame_equal(loaded.table, samples.table)
    samples.take([0]).save(tmp_path / "cut.npz")
    Samples(samples.take([0]).table).save(tmp_path / "fresh.npz")
    assert (tmp_path / "cut.npz").read_bytes() == (tmp_path / "fresh.npz").read_bytes()


@given(st.lists(st.tuples(st.integers(-9, 9), st.none() | st.text(max_size=3),
                          st.none() | st.floats(-9, 9)), max_size=5))  # fmt: skip
def test_a_table_of_samples_reads_back_as_the_same_samples(rows: list[Any]) -> None:
    texts = [None if text is None else text.replace("\0", "") for _, text, _ in rows]
    samples = Samples.from_columns(
        label=[row[0] for row in rows], east=[row[2] for row in rows],
        path=np.array(texts, dtype=object) if any(texts) else [""] * len(rows),
    )  # fmt: skip
    again = Samples(samples.table)
    assert len(again) == len(rows)
    if rows:
        assert again.fingerprint() == samples.fingerprint()


@pytest.mark.parametrize(
    "column",
    [
        np.array([1, 2]), np.array([1.0, 2.0]), np.array(["a", "b"]), np.array([True, False]),
        np.array([1, 2], dtype=object),
    ],
)  # fmt: skip
@pytest.mark.parametrize("wrap", [np.asarray, pd.Series, Tensor])
def test_inputs_are_not_shared(column: npt.NDArray[Any], wrap: Any) -> None:
    mine = column.copy()
    samples = Samples.from_columns(thing=wrap(mine))
    before = samples.values("thing").tolist()
    assert not np.shares_memory(samples.values("thing"), mine)
    mine[0] = mine[1]
    assert samples.values("thing").tolist() == before


def test_nothing_in_samples_can_be_changed(tmp_path: Path) -> None:
    samples = table()
    samples.save(tmp_path / "one.npz")
    variants = [
        samples, samples.take([0, 1]), samples.with_columns(x=[1, 2, 3, 4]),
        samples.without(["path"]), Samples.load(tmp_path / "one.npz"),
    ]  # fmt: skip
    for each in variants:
        for array in (each.values("label"), each.missing("east"), each.ids):
            assert array is not None
            with pytest.raises(ValueError, match="read-only"):
                array[0] = array[1]
    with pytest.raises(dataclasses.FrozenInstanceError):
        samples.n = 3  # type: ignore[misc]
    copy = samples.table
    copy.loc[0, "label"] = 99
    assert samples.values("label")[0] == 3


def test_samples_say_what_they_are() -> None:
    assert repr(table()) == "Samples(4 rows; camera, east, id, label, night, path)"
    assert list(table()) == list(table().column_names)
    assert len(Samples({})) == 0
    assert 5 not in table()
    with pytest.raises(FormatError, match=r"no column 'label'.*have: none"):
        Samples({}).values("label")


def test_a_fingerprint_in_any_order_needs_ids() -> None:
    samples = Samples.from_columns(id=["b", "c", "a"], label=[1, 2, 3])
    back = samples.take([2, 1, 0])
    assert samples.fingerprint() != back.fingerprint()
    assert samples.fingerprint(ordered=False) == back.fingerprint(ordered=False)
    assert back.take([0, 2, 1]).is_in_order
    other = Samples.from_columns(id=["a", "b", "c"], label=[1, 2, 3])
    assert other.fingerprint(ordered=False) != samples.fingerprint(ordered=False)
    bare = samples.without(["id"])
    assert bare.fingerprint(ordered=False) == bare.fingerprint()
    assert bare.take([2, 1, 0]).fingerprint(ordered=False) != bare.fingerprint(ordered=False)
