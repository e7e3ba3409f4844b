"""Images in folders and zips: which are read, in which order, and their bytes."""

from __future__ import annotations

import warnings
import zipfile
from pathlib import Path

import pytest

from reid_vpr_eval.errors import FormatError, InputNotFoundError
from reid_vpr_eval.formats import SideSpec, image_bytes, open_image, read_side

NO = SideSpec()
JUNK = (".hidden.jpg", "__MACOSX/a.jpg", ".git/b.jpg", "Thumbs.db", "readme.txt", "sub/._c.jpg")


def fill(target: Path, *names: str) -> Path:
    """Make a folder, or a zip if the target is named so, of tiny files."""
    if target.suffix == ".zip":
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as made, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name in names:
                made.writestr(name, name)
        return target
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_text(name)
    return target


def paths(source: Path, spec: SideSpec = NO) -> list[str]:
    found: list[str] = read_side(source, spec, "query").samples.values("path").tolist()
    return found


@pytest.mark.parametrize("container", ["d", "d.zip"])
class TestBoth:
    def test_sorted_by_path_without_junk(self, tmp_path: Path, container: str) -> None:
        names = ["b.JPG", "a/2.png", "a/10.png", "a-b/1.webp", "c.tiff"]
        source = fill(tmp_path / container, *names, *JUNK)
        assert paths(source) == sorted(names)

    def test_names_give_columns(self, tmp_path: Path, container: str) -> None:
        source = fill(
            tmp_path / container, "0002_c1s1_000451_03.jpg", "-1_c3s2_1_1.jpg", "0000_c2.jpg", *JUNK
        )
        samples = read_side(source, SideSpec(names="market"), "query").samples
        pairs = dict(zip(samples.values("path"), samples.values("label"), strict=True))
        assert pairs == {"-1_c3s2_1_1.jpg": -1, "0000_c2.jpg": 0, "0002_c1s1_000451_03.jpg": 2}
        assert samples.missing("frame").tolist() == [False, True, False]

    def test_names_that_do_not_fit_are_counted_and_shown(
        self, tmp_path: Path, container: str
    ) -> None:
        source = fill(tmp_path / container, "0002_c1.jpg", *(f"x{i}.jpg" for i in range(5)))
        message = r"5 of 6 names do not fit the grammar 'market'.*'x0\.jpg', .* and 2 more; rename"
        with pytest.raises(FormatError, match=message):
            read_side(source, SideSpec(names="market"), "query")

    def test_the_sides_folder(self, tmp_path: Path, container: str) -> None:
        source = fill(tmp_path / container, "query/1.jpg", "test/2.jpg", "test/deep/3.jpg")
        side = read_side(source, SideSpec(folder="test"), "gallery")
        assert side.samples.values("path").tolist() == ["2.jpg", "deep/3.jpg"]
        assert [open_image(side, row) for row in range(2)] == [b"test/2.jpg", b"test/deep/3.jpg"]
        if container == "d":
            assert paths(source / "test", SideSpec(folder="test")) == ["2.jpg", "deep/3.jpg"]

    def test_an_expression_sees_the_path_below_the_sides_folder(
        self, tmp_path: Path, container: str
    ) -> None:
        source = fill(tmp_path / container, "test/cat/1.jpg", "test/dog/2.jpg")
        spec = SideSpec(folder="test", names=r"^(?P<label>\w+)/(?P<frame>\d+)")
        samples = read_side(source, spec, "query").samples
        assert samples.values("label").tolist() == ["cat", "dog"]
        assert samples.values("frame").tolist() == [1, 2]

    def test_without_images(self, tmp_path: Path, container: str) -> None:
        source = fill(tmp_path / container, *JUNK)
        with pytest.raises(FormatError, match=rf"{container}: holds no image"):
            read_side(source, NO, "query")

    def test_bytes(self, tmp_path: Path, container: str) -> None:
        source = fill(tmp_path / container, "a/1.jpg")
        assert image_bytes(source, "a/1.jpg") == b"a/1.jpg"
        assert image_bytes(str(source), "./a/1.jpg") == b"a/1.jpg"
        with pytest.raises(InputNotFoundError, match=r"a/2\.jpg"):
            image_bytes(source, "a/2.jpg")


def test_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="holds no image"):
        read_side(tmp_path, NO, "query")


def test_linked_folders_are_followed_once(tmp_path: Path) -> None:
    fill(tmp_path / "elsewhere", "1.jpg")
    fill(tmp_path / "d", "0.jpg")
    (tmp_path / "d" / "linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "loop").symlink_to(tmp_path / "d")
    assert paths(tmp_path / "d") == ["0.jpg", "linked/1.jpg"]


def test_a_name_that_is_not_utf_8(tmp_path: Path) -> None:
    fill(tmp_path / "d", "a.jpg")
    try:
        (tmp_path / "d" / "m\udcfc.jpg").write_text("x")
    except OSError:
        pytest.skip("this file system has no such names")
    with pytest.raises(FormatError, match="is not UTF-8; rename"):
        read_side(tmp_path / "d", NO, "query")


def test_the_only_top_folder_of_a_zip_is_looked_into(tmp_path: Path) -> None:
    source = fill(tmp_path / "d.zip", "Market/query/1.jpg", "Market/test/2.jpg")
    side = read_side(source, SideSpec(folder="test"), "query")
    assert side.samples.values("path").tolist() == ["2.jpg"]
    assert open_image(side, 0) == b"Market/test/2.jpg"


def test_entries_that_leave_the_zip_are_ignored(tmp_path: Path) -> None:
    source = fill(
        tmp_path / "d.zip", "../out.jpg", "/etc/a.jpg", "a/../../b.jpg", "C:/w.jpg", "ok.jpg"
    )
    assert paths(source) == ["ok.jpg"]


def test_an_entry_that_is_there_twice_is_one_image(tmp_path: Path) -> None:
    assert paths(fill(tmp_path / "d.zip", "a.jpg", "a.jpg")) == ["a.jpg"]


def test_a_damaged_image_in_a_zip(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "d.zip", "w") as made:
        made.writestr("a.jpg", b"A" * 200)
    content = (tmp_path / "d.zip").read_bytes()
    (tmp_path / "d.zip").write_bytes(content.replace(b"A" * 200, b"B" * 200))
    with pytest.raises(FormatError, match=r"d\.zip: cannot be read as a zip"):
        image_bytes(tmp_path / "d.zip", "a.jpg")


def test_a_zip_that_changed_is_read_again(tmp_path: Path) -> None:
    source = fill(tmp_path / "d.zip", "a.jpg")
    assert image_bytes(source, "a.jpg") == b"a.jpg"
    source.unlink()
    fill(source, "a.jpg", "b.jpg")
    assert image_bytes(source, "b.jpg") == b"b.jpg"


def test_a_side_without_images(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("label\n1\n")
    side = read_side(tmp_path / "t.csv", NO, "query")
    with pytest.raises(FormatError, match=r"t\.csv: its images are not known"):
        open_image(side, 0)
