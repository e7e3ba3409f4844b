"""Tables and lists of names: kinds of columns, and what is wrong in which line."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from reid_vpr_eval.errors import FormatError
from reid_vpr_eval.formats import SideSpec, read_side
from reid_vpr_eval.samples import Samples

NO = SideSpec()


def read(path: Path, text: str | bytes, spec: SideSpec = NO) -> Samples:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_side(path, spec, "query").samples


class TestTables:
    def test_kinds(self, tmp_path: Path) -> None:
        samples = read(
            tmp_path / "t.csv",
            "pid,camid,lat,city,night,time\n0002,1,5.5,a,True,2014-01\n0003,2,6,NA,False,2015-01\n",
        )
        assert samples.values("label").tolist() == [2, 3]
        assert samples.values("camera").dtype == "int64"
        assert samples.values("lat").tolist() == [5.5, 6.0]
        assert samples.values("city").tolist() == ["a", "NA"]
        assert samples.values("night").tolist() == [True, False]
        assert samples.values("time").tolist() == ["2014-01", "2015-01"]

    def test_empty_cells_keep_integers_whole(self, tmp_path: Path) -> None:
        big = 2**60 + 1
        samples = read(tmp_path / "t.csv", f"label,view,city,lat\n1,{big},a,1\n2,,,\n3,3,c,nan\n")
        assert samples.missing("view").tolist() == [False, True, False]
        assert samples.table["view"].tolist() == [big, None, 3]
        assert samples.missing("city").tolist() == [False, True, False]
        assert samples.missing("lat").tolist() == [False, True, True]

    def test_labels_of_letters_stay_text(self, tmp_path: Path) -> None:
        samples = read(tmp_path / "t.csv", "label\n0002\nx3\n")
        assert samples.values("label").tolist() == ["0002", "x3"]

    def test_quotes_commas_byte_order_mark_and_blank_lines(self, tmp_path: Path) -> None:
        text = '\ufefflabel, city\r\n\r\n1,"Rio, BR"\r\n2, "say ""hi"""\r\n'
        samples = read(tmp_path / "t.csv", text)
        assert samples.values("city").tolist() == ["Rio, BR", 'say "hi"']

    def test_an_unnamed_index_is_left_out(self, tmp_path: Path) -> None:
        samples = read(tmp_path / "t.csv", ",label\n0,7\n1,8\n")
        assert samples.column_names == ("label",)

    def test_tabs(self, tmp_path: Path) -> None:
        samples = read(tmp_path / "t.tsv", "label\tcity\n1\ta, b\n")
        assert samples.values("city").tolist() == ["a, b"]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("label,camera\n", r"column names \(label, camera\) but no rows"),
            ("\n\n", "is empty"),
            ("label,label\n1,2\n", "name 'label' occurs more than once"),
            ("label,\n1,2\n", "column 2 has no name"),
            ("label,camera\n1,2\n3\n", "line 3 has 1 cell, but there are 2 columns"),
            ("label,camera\n1,2\n3,4,5\n", "line 3 has 3 cells"),
            ('label,camera\n1,"2\n3,4\n', "line 3.*quotation mark"),
            ("label;camera\n1;2\n", "separated by ';'"),
            ("label,camera\n,2\n", "column 'label' has no value"),
            ("label\n1.5\n", "not whole numbers"),
            ("label,pid\n1,2\n", "given twice"),
            (",\n1,2\n", "column 2 has no name"),
            ("lat\nnorth\n", "column 'lat' holds strings"),
            (b"label\nM\xfcnchen\n", r"not UTF-8 text \(byte 7\)"),
        ],
    )
    def test_what_is_wrong_is_said_with_its_place(
        self, tmp_path: Path, text: str | bytes, message: str
    ) -> None:
        with pytest.raises(FormatError, match=rf"t\.csv: .*{message}"):
            read(tmp_path / "t.csv", text)

    def test_a_mapping_settles_which_of_two_columns_counts(self, tmp_path: Path) -> None:
        spec = SideSpec(columns={"label": "pid"})
        samples = read(tmp_path / "t.csv", "label,pid\n1,2\n", spec)
        assert samples.values("label").tolist() == [2]

    def test_parquet_without_its_extra_says_what_to_install(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def missing(name: str, *rest: Any) -> Any:
            raise ImportError(name)

        monkeypatch.setattr(importlib, "import_module", missing)
        with pytest.raises(FormatError, match=r"reid_vpr_eval\[parquet\]"):
            read(tmp_path / "t.parquet", b"PAR1....PAR1")


class TestLists:
    def test_names_only(self, tmp_path: Path) -> None:
        samples = read(tmp_path / "l.txt", "# a comment\n\n./a/1.jpg\r\nb c/2.JPG\n  d.png\n")
        assert samples.values("path").tolist() == ["a/1.jpg", "b c/2.JPG", "d.png"]
        assert "label" not in samples

    def test_a_second_column_is_the_label(self, tmp_path: Path) -> None:
        samples = read(tmp_path / "l.lst", "0/a.jpg 7\n0/my b.jpg\t-1\n")
        assert samples.values("label").tolist() == [7, -1]
        assert samples.values("path").tolist() == ["0/a.jpg", "0/my b.jpg"]
        assert read(tmp_path / "k.txt", "key1 v2\nkey2 7\n").values("label").tolist() == ["v2", "7"]

    def test_the_grammar_counts_and_the_second_column_is_kept(self, tmp_path: Path) -> None:
        text = "0002/0002_000_11_0303morning_0015_0.jpg 5\n"
        samples = read(tmp_path / "l.txt", text, SideSpec(names="msmt"))
        assert samples.values("label").tolist() == [2]
        assert samples.values("camera").tolist() == [11]
        assert samples.values("listed_label").tolist() == [5]
        spec = SideSpec(names="msmt", columns={"label": "listed_label"})
        assert read(tmp_path / "l.txt", text, spec).values("label").tolist() == [5]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("# nothing\n\n", "holds no name"),
            ("a.jpg 1\nb.jpg 2 3\n", "line 2 has 3 columns"),
            ("1 2 3\n", "line 1 has 3 columns"),
            ("a.jpg 1\nb.jpg\n", "line 2 has no label"),
            ("a.jpg\nb.jpg 1\n", "line 2 has a label"),
            ("a.jpg b.jpg\n", "line 1 names two images.*pairs"),
            (b"M\xfcnchen.jpg\n", r"not UTF-8 text \(byte 1\)"),
        ],
    )
    def test_what_is_wrong_is_said_with_its_line(
        self, tmp_path: Path, text: str | bytes, message: str
    ) -> None:
        with pytest.raises(FormatError, match=rf"l\.txt: .*{message}"):
            read(tmp_path / "l.txt", text)

    def test_names_that_do_not_fit(self, tmp_path: Path) -> None:
        with pytest.raises(FormatError, match=r"l\.txt: 1 of 2 names does not fit.*'b\.jpg'"):
            read(tmp_path / "l.txt", "0002_c1.jpg\nb.jpg\n", SideSpec(names="market"))
