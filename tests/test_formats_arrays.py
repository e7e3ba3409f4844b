"""NumPy and MATLAB files: what becomes a column, what the features, and the way back."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
from hypothesis import given
from hypothesis import strategies as st

from reid_vpr_eval.errors import AlignmentError, FormatError, InputNotFoundError
from reid_vpr_eval.formats import SideSpec, read_features, read_matrix, read_side, write_features
from reid_vpr_eval.formats.registry import SideName
from reid_vpr_eval.samples import Samples
from reid_vpr_eval.scores import Embeddings

NO = SideSpec()
ONES = np.ones((2, 3), dtype=np.float32)


def archive(to: Path, **arrays: Any) -> Path:
    np.savez(to, **arrays)
    return to


def matlab(to: Path, **fields: Any) -> Path:
    scipy.io.savemat(to, fields)
    return to


class TestArchive:
    def test_vectors_are_columns_and_the_matrix_is_the_features(self, tmp_path: Path) -> None:
        made = archive(
            tmp_path / "a.npz", pid=[3, 4], camid=[1, 2], f16=ONES.astype(np.float16), epoch=7
        )
        side = read_side(made, NO, "query")
        assert side.samples.column_names == ("camera", "label")
        assert side.features is not None
        assert side.features.dtype == np.float16
        assert side.row_ids

    def test_what_is_named_features_is_the_features(self, tmp_path: Path) -> None:
        made = archive(tmp_path / "a.npz", label=[3, 4], features=ONES, logits=ONES * 2)
        side = read_side(made, NO, "query")
        assert side.features is not None
        assert np.asarray(side.features).tolist() == ONES.tolist()

    def test_several_matrices_are_not_guessed_among(self, tmp_path: Path) -> None:
        made = archive(tmp_path / "a.npz", label=[3, 4], one=ONES, two=ONES)
        with pytest.raises(FormatError, match=r"several matrices \(one: float32 \(2, 3\), two"):
            read_side(made, NO, "query")

    def test_without_features(self, tmp_path: Path) -> None:
        side = read_side(archive(tmp_path / "a.npz", label=[3, 4]), NO, "query")
        assert side.features is None

    @pytest.mark.parametrize("side", ["query", "gallery"])
    def test_arrays_of_both_sides(self, tmp_path: Path, side: SideName) -> None:
        made = archive(
            tmp_path / "a.npz",
            query_features=ONES,
            query_label=[[1, 2]],
            query_cam=[1, 1],
            gallery_features=ONES * 2,
            gallery_label=[3, 4],
            gallery_cam=[2, 2],
            note="best epoch",
        )
        read = read_side(made, NO, side)
        number = 1 if side == "query" else 2
        assert read.features is not None
        assert np.asarray(read.features)[0, 0] == number
        assert read.samples.values("camera").tolist() == [number, number]
        assert read.samples.column_names == ("camera", "label")
        assert np.asarray(read_features(made, side=side))[0, 0] == number
        with pytest.raises(FormatError, match=r"both sides.*say which"):
            read_features(made)

    def test_a_file_of_the_other_side_is_refused(self, tmp_path: Path) -> None:
        made = archive(tmp_path / "a.npz", query_features=ONES, query_label=[1, 2])
        assert len(read_side(made, NO, "query").samples) == 2
        with pytest.raises(FormatError, match="nothing of the gallery side"):
            read_side(made, NO, "gallery")

    @pytest.mark.parametrize("turned", [False, True])
    def test_positions_by_side(self, tmp_path: Path, turned: bool) -> None:
        query = np.array([[1.0, 2.0]])
        gallery = np.array([[3.0, 4.0], [5.0, 6.0], [7.0, 8.0]])
        made = archive(
            tmp_path / "a.npz",
            utmQ=query.T if turned else query,
            utmDb=gallery.T if turned else gallery,
            posDistThr=25,
        )
        assert read_side(made, NO, "query").samples.values("north").tolist() == [2.0]
        assert read_side(made, NO, "gallery").samples.values("east").tolist() == [3.0, 5.0, 7.0]

    def test_rows_that_differ_are_named_with_their_sizes(self, tmp_path: Path) -> None:
        made = archive(tmp_path / "a.npz", label=[1, 2, 3], camera=[1, 2], features=ONES)
        with pytest.raises(AlignmentError, match=r"a\.npz.*label: 3, camera: 2, features: 2"):
            read_side(made, NO, "query")

    def test_objects_are_refused(self, tmp_path: Path) -> None:
        made = archive(tmp_path / "a.npz", label=np.array([1, "a"], dtype=object))
        with pytest.raises(FormatError, match="no pickle is loaded"):
            read_side(made, NO, "query")

    def test_a_zip_of_other_files_is_refused(self, tmp_path: Path) -> None:
        import zipfile

        with zipfile.ZipFile(tmp_path / "a.npz", "w") as made:
            made.writestr("1.jpg", b"picture")
        with pytest.raises(FormatError, match=r"no arrays \(1\.jpg\).*name it \.zip"):
            read_side(tmp_path / "a.npz", NO, "query")

    def test_saved_samples_are_a_table(self, tmp_path: Path) -> None:
        samples = Samples.from_columns(label=[1, 2], camera=[1, None])
        samples.save(tmp_path / "s.npz")
        read = read_side(tmp_path / "s.npz", NO, "query")
        assert read.samples.fingerprint() == samples.fingerprint()

    def test_other_saved_values_are_named(self, tmp_path: Path) -> None:
        Embeddings(ONES, ONES).save(tmp_path / "e.npz")
        with pytest.raises(FormatError, match="saved embeddings, not samples"):
            read_side(tmp_path / "e.npz", NO, "query")

    def test_a_bad_column_names_the_file(self, tmp_path: Path) -> None:
        made = archive(tmp_path / "a.npz", label=[1.5, 2.0])
        with pytest.raises(FormatError, match=r"a\.npz: column 'label'.*not whole"):
            read_side(made, NO, "query")


class TestFeatures:
    @pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "uint8", "int64"])
    def test_types_are_kept(self, tmp_path: Path, dtype: str) -> None:
        np.save(tmp_path / "a.npy", ONES.astype(dtype))
        assert read_features(tmp_path / "a.npy").dtype == np.dtype(dtype)
        assert read_features(archive(tmp_path / "a.npz", x=ONES.astype(dtype))).shape == (2, 3)

    @pytest.mark.parametrize(
        ("array", "message"),
        [
            (np.ones(3), r"shape \(3,\)"),
            (np.ones((2, 2, 2)), r"shape \(2, 2, 2\)"),
            (np.array([["a", "b"]]), "type <U1"),
            (np.ones((2, 2), complex), "type complex128"),
            (np.array([[1, None]], dtype=object), "no pickle is loaded"),
        ],
    )
    def test_other_arrays_are_refused(self, tmp_path: Path, array: Any, message: str) -> None:
        np.save(tmp_path / "a.npy", array)
        with pytest.raises(FormatError, match=rf"a\.npy.*{message}"):
            read_features(tmp_path / "a.npy")

    def test_no_features(self, tmp_path: Path) -> None:
        with pytest.raises(FormatError, match=r"no features.*only label"):
            read_features(archive(tmp_path / "a.npz", label=[1, 2]))

    def test_of_a_file_that_is_none(self, tmp_path: Path) -> None:
        with pytest.raises(InputNotFoundError, match="no such file"):
            read_features(tmp_path / "none.npy")
        (tmp_path / "a.csv").write_text("label\n1\n")
        with pytest.raises(FormatError, match=r"from \.npy, \.npz and \.mat files, not from \.csv"):
            read_features(tmp_path / "a.csv")
        with pytest.raises(FormatError, match="holds no files of vectors"):
            read_features(tmp_path)

    def test_a_matrix_is_mapped(self, tmp_path: Path) -> None:
        np.save(tmp_path / "a.npy", ONES)
        assert isinstance(read_matrix(tmp_path / "a.npy"), np.memmap)
        assert not isinstance(read_features(tmp_path / "a.npy"), np.memmap)


class TestMatlab:
    def test_row_vectors_by_field_name(self, tmp_path: Path) -> None:
        made = matlab(
            tmp_path / "pytorch_result.mat",
            gallery_f=ONES * 2,
            gallery_label=[[5.0, -1.0]],
            gallery_cam=np.array([[1, 6]], dtype=np.uint8),
            query_f=np.ones((1, 3)),
            query_label=[[5]],
            query_cam=[[3]],
        )
        gallery = read_side(made, NO, "gallery")
        assert gallery.samples.values("label").tolist() == [5, -1]
        assert gallery.samples.keys("camera").tolist() == [1, 6]
        assert gallery.features is not None
        assert gallery.features.dtype == np.float32
        query = read_side(made, NO, "query")
        assert query.samples.values("label").tolist() == [5]
        assert read_features(made, side="query").shape == (1, 3)

    def test_other_vectors_of_the_side_are_columns(self, tmp_path: Path) -> None:
        made = matlab(
            tmp_path / "a.mat", query_f=ONES, query_label=[[1, 2]], query_view=[[7, 8]], query_n=2
        )
        assert read_side(made, NO, "query").samples.column_names == ("label", "view")

    def test_rows_that_differ(self, tmp_path: Path) -> None:
        made = matlab(tmp_path / "a.mat", query_f=ONES, query_label=[[1, 2, 3]])
        with pytest.raises(AlignmentError, match="label: 3, features: 2"):
            read_side(made, NO, "query")

    def test_other_fields_are_named(self, tmp_path: Path) -> None:
        with pytest.raises(FormatError, match=r"no field query_f.*fields are queryID"):
            read_side(matlab(tmp_path / "a.mat", queryID=[[1, 2]]), NO, "query")

    @pytest.mark.parametrize(
        "head", [b"MATLAB 7.3 MAT-file, Platform: GLNXA64", b"\x89HDF\r\n\x1a\n"]
    )
    def test_version_7_3_says_so(self, tmp_path: Path, head: bytes) -> None:
        (tmp_path / "a.mat").write_bytes(head.ljust(1024, b"\0"))
        with pytest.raises(FormatError, match=r"version 7\.3 \(HDF5\).*'-v7'"):
            read_side(tmp_path / "a.mat", NO, "query")


CELLS = {
    "label": st.integers(-(2**62), 2**62),
    "camera": st.one_of(st.none(), st.integers(-5, 5)),
    "lat": st.one_of(st.none(), st.floats(-90, 90)),
    "note": st.one_of(st.none(), st.text("abcé本 ,", max_size=4)),
    "night": st.one_of(st.none(), st.booleans()),
}


class TestWriteFeatures:
    @given(rows=st.lists(st.fixed_dictionaries(CELLS), min_size=1, max_size=6))
    def test_round_trip(self, tmp_path_factory: pytest.TempPathFactory, rows: list[Any]) -> None:
        """Every column and every missing value comes back."""
        columns = {name: [row[name] for row in rows] for name in CELLS}
        samples = Samples({"path": [f"{i}.jpg" for i in range(len(rows))], **columns})
        features = np.arange(len(rows) * 2, dtype=np.float16).reshape(-1, 2)
        path = tmp_path_factory.mktemp("w") / "f.npz"
        write_features(path, samples, features)
        side = read_side(path, NO, "query")
        assert side.features is not None
        assert side.features.dtype == np.float16
        assert np.asarray(side.features).tolist() == features.tolist()
        assert side.samples.column_names == samples.column_names
        for name in samples:
            lost = samples.missing(name)
            assert side.samples.missing(name).tolist() == lost.tolist()
            if not lost.all():
                kept = samples.take(~lost).values(name)
                again = side.samples.take(~lost).values(name)
                assert again.dtype.kind == kept.dtype.kind
                assert again.tolist() == kept.tolist()

    def test_is_plain_arrays(self, tmp_path: Path) -> None:
        samples = Samples.from_columns(path=["a", "b"], camera=[None, 3])
        write_features(tmp_path / "f.npz", samples, ONES)
        with np.load(tmp_path / "f.npz", allow_pickle=False) as stored:
            assert sorted(stored.files) == ["camera", "features", "missing:camera", "path"]
            assert stored["camera"].tolist() == [0, 3]

    def test_the_same_content_gives_the_same_bytes(self, tmp_path: Path) -> None:
        one = Samples.from_columns(label=[1, 2], path=["a", "b"])
        two = Samples.from_columns(path=["a", "b"], label=[1, 2])
        write_features(tmp_path / "1.npz", one, ONES)
        write_features(tmp_path / "2.npz", two, ONES)
        assert (tmp_path / "1.npz").read_bytes() == (tmp_path / "2.npz").read_bytes()

    def test_columns_named_like_sides_are_columns(self, tmp_path: Path) -> None:
        samples = Samples.from_columns(query_label=[1, 2], gallery_label=[3, 4])
        write_features(tmp_path / "f.npz", samples, ONES)
        read = read_side(tmp_path / "f.npz", NO, "query")
        assert read.samples.column_names == ("gallery_label", "query_label")

    def test_an_interrupted_write_leaves_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(os, "replace", fail)
        with pytest.raises(KeyboardInterrupt):
            write_features(tmp_path / "f.npz", Samples.from_columns(label=[1, 2]), ONES)
        assert list(tmp_path.iterdir()) == []

    def test_what_cannot_be_written(self, tmp_path: Path) -> None:
        samples = Samples.from_columns(label=[1, 2])
        with pytest.raises(AlignmentError, match="3 vectors for 2 samples"):
            write_features(tmp_path / "f.npz", samples, np.ones((3, 2)))
        with pytest.raises(FormatError, match=r"written as \.npz"):
            write_features(tmp_path / "f.npy", samples, ONES)
        with pytest.raises(FormatError, match="cannot be called 'features'"):
            write_features(tmp_path / "f.npz", Samples.from_columns(features=[1, 2]), ONES)
        with pytest.raises(FormatError, match="the type object"):
            write_features(tmp_path / "f.npz", samples, np.array([[None], [1]], dtype=object))
