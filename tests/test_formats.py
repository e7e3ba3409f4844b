"""The registry of readers, and both sides read together: ids, features, what is refused."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io

from reid_vpr_eval.errors import AlignmentError, FormatError, InputNotFoundError
from reid_vpr_eval.formats import (
    FORMATS,
    Content,
    SideSpec,
    read_side,
    read_sides,
    reader,
    registry,
)

NO = SideSpec()


def sides(query: Path, gallery: Path, **options: Any) -> Any:
    given: dict[str, Any] = {"query_spec": NO, "gallery_spec": NO, **options}
    return read_sides(query, gallery, **given)


def table(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def pictures(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"picture " + name.encode())
    return folder


def archive(to: Path, **arrays: Any) -> Path:
    np.savez(to, **arrays)
    return to


def make_npz(folder: Path) -> Path:
    return archive(folder / "a.npz", path=["x.jpg", "y.jpg"], features=np.ones((2, 3)))


def make_mat(folder: Path) -> Path:
    content = {"query_f": np.ones((2, 3)), "query_label": [[4, 5]], "query_cam": [[1, 2]]}
    scipy.io.savemat(folder / "a.mat", content)
    return folder / "a.mat"


def make_folder(folder: Path) -> Path:
    return pictures(folder / "images", "x.jpg", "y.jpg")


def make_zip(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "a.zip", "w") as made:
        for name in ("x.jpg", "y.jpg"):
            made.writestr(name, b"picture")
    return folder / "a.zip"


def make_npy(folder: Path) -> Path:
    np.save(folder / "a.npy", np.ones((2, 3)))
    return folder / "a.npy"


def make_hdf5(folder: Path) -> Path:
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "ann.hdf5", "w") as file:
        for name in ("train", "test"):
            file[name] = np.arange(6.0).reshape(2, 3)
    return folder / "ann.hdf5"


def make_parquet(folder: Path) -> Path:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.table({"path": ["x.jpg", "y.jpg"]}), folder / "a.parquet")
    return folder / "a.parquet"


#: One small valid input for every registered format.
SMALL: dict[str, Callable[[Path], Path]] = {
    "NumPy array": make_npy,
    "NumPy archive": make_npz,
    "MATLAB result": make_mat,
    "folder of images": make_folder,
    "zip of images": make_zip,
    "list of names": lambda folder: table(folder / "a.txt", "x.jpg\ny.jpg\n"),
    "comma-separated table": lambda folder: table(folder / "a.csv", "path\nx.jpg\ny.jpg\n"),
    "tab-separated table": lambda folder: table(folder / "a.tsv", "path\tn\nx.jpg\t1\ny.jpg\t2\n"),
    "Parquet table": make_parquet,
    "HDF5 file": make_hdf5,
}


@pytest.fixture
def own_registry() -> Iterator[None]:
    """Let a test register formats, and take them out again."""
    before = dict(registry._READERS)
    yield
    registry._READERS.clear()
    registry._READERS.update(before)


@pytest.mark.parametrize("name", sorted(FORMATS))
class TestEveryFormat:
    def test_reads_a_small_input(self, name: str, tmp_path: Path) -> None:
        source = SMALL[name](tmp_path)
        assert registry.find_reader(source) is FORMATS[name]
        content = FORMATS[name].read(source, "query", NO)
        assert isinstance(content, Content)
        sizes = {len(column) for column in content.columns.values()}
        assert sizes <= {2}
        assert content.features is None or content.features.shape == (2, 3)
        assert content.columns or content.features is not None

    def test_has_a_docstring_and_lower_case_suffixes(self, name: str) -> None:
        assert FORMATS[name].read.__doc__
        assert FORMATS[name].suffixes
        assert all(suffix == suffix.lower() for suffix in FORMATS[name].suffixes)

    @pytest.mark.parametrize(
        "junk", [b"", b"\0\1\2" * 99, b"\x80\x04pickle", b"PK\x03\x04 not a zip", b"plain words, 1"]
    )
    def test_damaged_content_is_a_project_error(
        self, name: str, tmp_path: Path, junk: bytes
    ) -> None:
        suffix = FORMATS[name].suffixes[0]
        if suffix == "/" or (junk == b"plain words, 1" and not FORMATS[name].signatures):
            pytest.skip("no file, or valid")
        (tmp_path / f"a{suffix}").write_bytes(junk)
        with pytest.raises(FormatError, match="a" + suffix.replace(".", r"\.")):
            read_side(tmp_path / f"a{suffix}", NO, "query")

    def test_cut_short_is_a_project_error(self, name: str, tmp_path: Path) -> None:
        if not FORMATS[name].signatures:
            pytest.skip("text or folder")
        source = SMALL[name](tmp_path)
        whole = source.read_bytes()
        for size in (7, 60, len(whole) // 2, len(whole) - 9):
            source.write_bytes(whole[:size])
            with pytest.raises(FormatError, match=source.name):
                read_side(source, NO, "query")


def test_a_name_or_suffix_is_registered_once(own_registry: None) -> None:
    def read(path: Path, side: Any, spec: SideSpec) -> Content:
        return Content(columns={})

    with pytest.raises(FormatError, match="registered already"):
        reader("zip of images", suffixes=(".new",))(read)
    with pytest.raises(
        FormatError, match=r"'\.npz' of the format 'new' belongs to 'NumPy archive'"
    ):
        reader("new", suffixes=(".npz",))(read)


def test_a_new_format_is_one_function(own_registry: None, tmp_path: Path) -> None:
    @reader("words", suffixes=(".words",))
    def read_words(path: Path, side: Any, spec: SideSpec) -> Content:
        return Content(columns={"label": path.read_text().split()})

    side = read_side(table(tmp_path / "a.words", "cat dog"), NO, "query")
    assert side.samples.values("label").tolist() == ["cat", "dog"]
    assert FORMATS["words"].read is read_words


def test_an_unknown_suffix_lists_the_known(tmp_path: Path) -> None:
    table(tmp_path / "a.xyz", "hello")
    with pytest.raises(FormatError, match=r"'\.xyz' is not known.*looks like text.*\.npz.*\.csv"):
        read_side(tmp_path / "a.xyz", NO, "query")


@pytest.mark.parametrize(
    ("name", "content", "looks"),
    [
        ("a.npy", b"label,camera\n1,2\n", "text"),
        ("a.npz", b"\x93NUMPY....", "a NumPy array"),
        ("a.csv", b"PK\x03\x04....", "a zip or a NumPy archive"),
        ("a.txt", b"MATLAB 5.0", "a MATLAB file"),
        ("a.csv", "label\n1\n".encode("utf-16"), "UTF-16"),
        ("a.mat", b"", "an empty file"),
    ],
)
def test_a_mistyped_suffix_says_what_the_file_looks_like(
    tmp_path: Path, name: str, content: bytes, looks: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FormatError, match=f"looks like {looks}"):
        read_side(tmp_path / name, NO, "query")


def test_a_missing_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(InputNotFoundError, match=r"no such file.*gallery samples"):
        read_side(tmp_path / "none.csv", NO, "gallery")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        read_side(tmp_path / "none" / "none.csv", NO, "gallery")


def test_features_alone_are_no_samples(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"features but no samples.*query features"):
        read_side(make_npy(tmp_path), NO, "query")


class TestIds:
    """Equal ids on both sides mean one item; a wrong one would remove an item as self."""

    def test_equal_names_in_two_folders_are_two_items(self, tmp_path: Path) -> None:
        pictures(tmp_path / "d", "query/1.jpg", "gallery/1.jpg")
        query, gallery = sides(tmp_path / "d" / "query", tmp_path / "d" / "gallery")
        assert query.samples.ids.tolist() == ["query/1.jpg"]
        assert gallery.samples.ids.tolist() == ["gallery/1.jpg"]
        assert query.samples.values("path").tolist() == ["1.jpg"]
        assert not query.row_ids

    def test_the_protocols_folders_below_one_root(self, tmp_path: Path) -> None:
        pictures(tmp_path / "d", "query/1.jpg", "test/1.jpg", "test/2.jpg", "other/3.jpg")
        query, gallery = sides(
            tmp_path / "d",
            tmp_path / "d",
            query_spec=SideSpec(folder="query"),
            gallery_spec=SideSpec(folder="test"),
        )
        assert query.samples.ids.tolist() == ["query/1.jpg"]
        assert gallery.samples.ids.tolist() == ["test/1.jpg", "test/2.jpg"]
        assert gallery.root == tmp_path / "d" / "test"

    def test_one_folder_for_both_sides_is_the_same_items(self, tmp_path: Path) -> None:
        pictures(tmp_path / "d", "1.jpg", "sub/1.jpg")
        query, gallery = sides(tmp_path / "d", tmp_path / "d")
        assert query.samples.ids.tolist() == gallery.samples.ids.tolist() == ["1.jpg", "sub/1.jpg"]

    def test_a_folder_inside_the_other_shares_its_files(self, tmp_path: Path) -> None:
        pictures(tmp_path / "d", "1.jpg", "sub/1.jpg")
        query, gallery = sides(tmp_path / "d" / "sub", tmp_path / "d")
        assert query.samples.ids.tolist() == ["sub/1.jpg"]
        assert gallery.samples.ids.tolist() == ["1.jpg", "sub/1.jpg"]

    def test_a_link_to_a_folder_is_that_folder(self, tmp_path: Path) -> None:
        pictures(tmp_path / "d", "1.jpg")
        (tmp_path / "link").symlink_to(tmp_path / "d")
        query, gallery = sides(tmp_path / "link", tmp_path / "d")
        assert query.samples.ids.tolist() == gallery.samples.ids.tolist()

    def test_zips(self, tmp_path: Path) -> None:
        first = make_zip(tmp_path)
        query, gallery = sides(first, first)
        assert query.samples.ids.tolist() == gallery.samples.ids.tolist() == ["x.jpg", "y.jpg"]
        second = first.with_name("b.zip")
        second.write_bytes(first.read_bytes())
        query, gallery = sides(first, second)
        assert query.samples.ids.tolist() == ["a.zip/x.jpg", "a.zip/y.jpg"]
        assert gallery.samples.ids.tolist() == ["b.zip/x.jpg", "b.zip/y.jpg"]

    def test_one_table_is_its_own_row_positions_before_where(self, tmp_path: Path) -> None:
        one = table(tmp_path / "t.csv", "label,split\n1,query\n2,gallery\n3,query\n")
        query, gallery = sides(
            one,
            tmp_path / "." / "t.csv",
            query_spec=SideSpec(where={"split": "query"}),
            gallery_spec=SideSpec(where={"split": ["gallery", "query"]}),
        )
        assert query.samples.ids.tolist() == [0, 2]
        assert gallery.samples.ids.tolist() == [0, 1, 2]
        assert query.row_ids
        assert gallery.row_ids

    def test_two_tables_have_private_ids(self, tmp_path: Path) -> None:
        text = "label\n1\n2\n"
        query, gallery = sides(table(tmp_path / "q.csv", text), table(tmp_path / "g.csv", text))
        assert query.samples.ids is None
        assert gallery.samples.ids is None
        assert query.row_ids

    def test_given_ids_are_kept(self, tmp_path: Path) -> None:
        one = table(tmp_path / "t.csv", "id,label\na,1\nb,2\n")
        query, _ = sides(one, one)
        assert query.samples.ids.tolist() == ["a", "b"]
        assert not query.row_ids

    def test_mapped_ids_are_given_ids(self, tmp_path: Path) -> None:
        spec = SideSpec(columns={"id": "key"})
        first = table(tmp_path / "q.csv", "key,label\na,1\nb,2\n")
        second = table(tmp_path / "g.csv", "key,label\nb,2\nc,2\n")
        query, gallery = sides(first, second, query_spec=spec, gallery_spec=spec)
        assert query.samples.ids.tolist() == ["a", "b"]
        assert gallery.samples.ids.tolist() == ["b", "c"]
        assert not query.row_ids

    def test_ids_must_be_unique_only_in_the_rows_that_a_side_keeps(self, tmp_path: Path) -> None:
        one = table(tmp_path / "t.csv", "id,label,split\na,1,q\na,1,g\nb,2,g\n")
        query, gallery = sides(
            one,
            one,
            query_spec=SideSpec(where={"split": "q"}),
            gallery_spec=SideSpec(where={"split": "g"}),
        )
        assert query.samples.ids.tolist() == ["a"]
        assert gallery.samples.ids.tolist() == ["a", "b"]
        assert query.samples.column_names == ("id", "label", "split")
        with pytest.raises(AlignmentError, match=r"t.csv.*more than once"):
            sides(one, one, query_spec=SideSpec(where={"label": 1}))

    def test_a_file_of_both_sides_is_two_tables(self, tmp_path: Path) -> None:
        one = archive(
            tmp_path / "a.npz",
            query_features=np.ones((1, 2)),
            query_label=[1],
            gallery_features=np.zeros((2, 2)),
            gallery_label=[1, 2],
        )
        query, gallery = sides(one, one)
        assert query.samples.ids is None
        assert gallery.samples.ids is None
        assert (len(query.samples), len(gallery.samples)) == (1, 2)

    def test_lists_of_bare_names_have_private_ids(self, tmp_path: Path) -> None:
        first = table(tmp_path / "q.txt", "1.jpg\n")
        second = table(tmp_path / "g.txt", "1.jpg\n2.jpg\n")
        query, gallery = sides(first, second)
        assert query.samples.ids is None
        assert gallery.samples.ids is None

    def test_one_list_for_both_sides_is_the_same_items(self, tmp_path: Path) -> None:
        one = table(tmp_path / "q.txt", "./1.jpg\n2.jpg\n")
        query, gallery = sides(one, one)
        assert query.samples.ids.tolist() == gallery.samples.ids.tolist() == ["1.jpg", "2.jpg"]

    def test_lists_of_different_folders_are_named(self, tmp_path: Path) -> None:
        first = table(tmp_path / "q.txt", "./queries/1.jpg\n")
        second = table(tmp_path / "g.txt", "./db/1.jpg\n")
        query, gallery = sides(first, second)
        assert query.samples.ids.tolist() == ["queries/1.jpg"]
        assert gallery.samples.ids.tolist() == ["db/1.jpg"]

    def test_lists_that_share_folders_have_private_ids(self, tmp_path: Path) -> None:
        first = table(tmp_path / "q.txt", "0000/1.jpg\n")
        second = table(tmp_path / "g.txt", "0000/1.jpg\n")
        assert sides(first, second)[0].samples.ids is None

    def test_listed_images_that_exist_have_their_paths(self, tmp_path: Path) -> None:
        pictures(tmp_path, "query/1.jpg", "test/1.jpg", "test/2.jpg")
        first = table(tmp_path / "query" / "q.txt", "1.jpg\n")
        second = table(tmp_path / "test" / "g.txt", "1.jpg\n2.jpg\n")
        query, gallery = sides(first, second)
        assert query.samples.ids.tolist() == ["query/1.jpg"]
        assert gallery.samples.ids.tolist() == ["test/1.jpg", "test/2.jpg"]
        everything = table(tmp_path / "all.txt", "query/1.jpg\ntest/2.jpg\n")
        query, gallery = sides(first, everything)
        assert query.samples.ids.tolist() == ["query/1.jpg"]
        assert gallery.samples.ids.tolist() == ["query/1.jpg", "test/2.jpg"]

    def test_files_and_a_table_match_nothing(self, tmp_path: Path) -> None:
        folder = pictures(tmp_path / "d", "1.jpg")
        query, gallery = sides(folder, table(tmp_path / "g.csv", "path\n1.jpg\n"))
        assert query.samples.ids is None
        assert gallery.samples.ids is None

    def test_one_side_alone_has_no_ids_of_files(self, tmp_path: Path) -> None:
        side = read_side(pictures(tmp_path / "d", "1.jpg"), NO, "query")
        assert side.samples.ids is None


class TestFeatures:
    def test_rows_are_filtered_together(self, tmp_path: Path) -> None:
        features = np.arange(6, dtype=np.float16).reshape(3, 2)
        one = archive(tmp_path / "a.npz", label=[1, 2, 3], split=list("qgq"), features=features)
        query, gallery = sides(
            one,
            one,
            query_spec=SideSpec(where={"split": "q"}),
            gallery_spec=SideSpec(where={"split": "g"}),
        )
        assert query.features.dtype == np.float16
        assert query.features.tolist() == [[0, 1], [4, 5]]
        assert gallery.features.tolist() == [[2, 3]]
        assert query.samples.values("label").tolist() == [1, 3]

    @pytest.mark.parametrize("rows", [[0, 1, 2], [0, 2]])
    def test_given_apart_for_all_rows_or_those_kept(self, tmp_path: Path, rows: list[int]) -> None:
        one = table(tmp_path / "t.csv", "label,split\n1,q\n2,g\n3,q\n")
        vectors = np.array([[0.0], [1.0], [2.0]])
        np.save(tmp_path / "q.npy", vectors[rows])
        query, gallery = sides(
            one,
            one,
            query_spec=SideSpec(where={"split": "q"}),
            query_features=tmp_path / "q.npy",
        )
        assert query.features.tolist() == [[0.0], [2.0]]
        assert gallery.features is None

    def test_another_number_of_rows_is_refused_with_both(self, tmp_path: Path) -> None:
        one = table(tmp_path / "t.csv", "label,split\n1,q\n2,g\n3,q\n")
        np.save(tmp_path / "f.npy", np.ones((5, 2)))
        with pytest.raises(AlignmentError, match=r"f\.npy: 5 .*t\.csv has 3 query.*\(2 of them"):
            sides(
                one,
                one,
                query_spec=SideSpec(where={"split": "q"}),
                query_features=tmp_path / "f.npy",
            )

    def test_a_file_of_both_sides_serves_both(self, tmp_path: Path) -> None:
        both = archive(
            tmp_path / "f.npz", query_features=np.zeros((2, 1)), gallery_features=np.ones((3, 1))
        )
        query, gallery = sides(
            table(tmp_path / "q.csv", "label\n1\n2\n"),
            table(tmp_path / "g.csv", "label\n1\n2\n3\n"),
            query_features=both,
            gallery_features=both,
        )
        assert query.features.tolist() == [[0.0], [0.0]]
        assert gallery.features.tolist() == [[1.0]] * 3

    def test_one_archive_for_both_sides_is_read_once(self, tmp_path: Path) -> None:
        one = make_npz(tmp_path)
        query, gallery = sides(one, one)
        assert query.features is gallery.features

    def test_images_beside_a_table_are_found(self, tmp_path: Path) -> None:
        pictures(tmp_path, "images/1.jpg")
        with_images = table(tmp_path / "t.csv", "image,label\nimages/1.jpg,3\n")
        without = table(tmp_path / "else" / "t.csv", "image,label\nimages/1.jpg,3\n")
        query, gallery = sides(with_images, without)
        assert query.root == tmp_path
        assert gallery.root is None
