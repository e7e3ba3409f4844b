"""The page: one valid file that asks nothing of the network, the same bytes twice."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from reid_vpr_eval import AlignmentError, Result
from reid_vpr_eval.report import Images, write_report
from reid_vpr_eval.report.queries import query_table
from reid_vpr_eval.summary import shown_interval
from report_results import images, people, places, without_figures

VOID = {"meta", "img", "link", "br", "hr", "wbr", "input"}
SVG_LEAVES = {"path", "use", "circle"}


class Reader(HTMLParser):
    """Checks that elements nest, and keeps what the tests ask for."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self.ids += [value or "" for name, value in attrs if name == "id"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read(page: Path) -> Reader:
    """Parse a page; every element must be closed."""
    reader = Reader()
    reader.feed(page.read_text(encoding="utf-8"))
    reader.close()
    assert reader.open == []
    return reader


def words(reader: Reader) -> str:
    """Return the text of a page with single spaces."""
    return " ".join(" ".join(reader.text).split())


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the figures, which other tests look at."""
    without_figures(monkeypatch)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write people and places on one page."""
    results = [people(), places()]
    folder = tmp_path_factory.mktemp("both")
    return write_report(results, folder, [images(one) for one in results])


def test_the_page_is_valid_and_complete(both: Path) -> None:
    reader = read(both)
    tags = [tag for tag, _ in reader.found]
    assert [dict(attrs) for tag, attrs in reader.found if tag == "html"] == [{"lang": "en"}]
    assert tags.count("title") == tags.count("main") == tags.count("h1") == 1
    assert tags.count("h2") == 2
    duplicates = {name for name in reader.ids if reader.ids.count(name) > 1}
    assert not {name for name in duplicates if "DejaVuSans" not in name}
    assert all(attrs.get("alt") for tag, attrs in reader.found if tag == "img")
    figures = [attrs for tag, attrs in reader.found if tag == "svg" and "viewbox" in attrs]
    assert all(attrs.get("role") == "img" and attrs.get("aria-label") for attrs in figures)
    assert len(figures) >= 8
    links = [attrs["href"] or "" for tag, attrs in reader.found if tag == "a"]
    assert len(links) > 20
    assert {link.removeprefix("#") for link in links} <= set(reader.ids)


def test_the_page_asks_nothing_of_the_network(both: Path) -> None:
    text = both.read_text(encoding="utf-8")
    assert "http://" not in text
    assert "https://" not in text
    assert "url(" not in text.replace("url(#", "")
    for tag, attrs in read(both).found:
        assert tag not in ("link", "iframe", "object", "base")
        for name in ("src", "srcset", "href", "xlink:href", "action", "poster", "data"):
            value = attrs.get(name)
            assert value is None or value.startswith(("#", "data:image/webp;base64,"))


@pytest.mark.slow
def test_the_same_input_has_the_same_bytes(tmp_path: Path) -> None:
    results = [people(), places()]
    for name in ("a", "b"):
        write_report(results, tmp_path / name, [images(one) for one in results])
    made = sorted(path.relative_to(tmp_path / "a") for path in (tmp_path / "a").rglob("*.*"))
    assert {path.as_posix() for path in made} >= {
        "figures/1-labels/cmc.png", "figures/1-labels/cmc.svg", "figures/2-places/near_misses.csv",
        "figures/2-places/recall.svg", "report.html",
    }  # fmt: skip
    for path in made:
        assert (tmp_path / "a" / path).read_bytes() == (tmp_path / "b" / path).read_bytes()


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_a_saved_result_gives_the_same_page(tmp_path: Path) -> None:
    made = places()
    made.save(tmp_path / "run")
    first = write_report([made], tmp_path / "a", [images(made)])
    second = write_report([Result.load(tmp_path / "run")], tmp_path / "b", [images(made)])
    assert first.read_text() == second.read_text()


@pytest.mark.usefixtures("quick")
def test_numbers_are_on_the_page(tmp_path: Path) -> None:
    made = places()
    text = words(read(write_report([made], tmp_path)))
    assert f"R@1 share of queries whose first item is a positive {100 * made.metrics['R@1']:.1f}" \
        in text  # fmt: skip
    limits = shown_interval("CMC@1", made.intervals["CMC@1"])
    assert f"{limits} {100 * made.chance['CMC@1']:.1f}" in text
    assert "Without a positive nothing to find; a miss in every mean 1" in text
    assert "Ceiling the highest hit rate that these queries allow 90.0 %" in text
    assert made.protocol.judging_hash[:12] in text
    assert made.inputs["gallery"] in text
    assert 'radius = 25.0' in text
    assert "All 10 queries, by rank of the first positive, the worst first." in text
    assert "up to and including 25 m" in text


@pytest.mark.slow
def test_results_of_one_protocol_are_compared_and_share_figures(tmp_path: Path) -> None:
    page = write_report([people(), people(4)], tmp_path, names=["one", "two"])
    reader = read(page)
    made = {path.name for path in (tmp_path / "figures").iterdir()}
    assert {"cmc.png", "cmc.svg", "scores.svg"} <= made
    assert sum(name.startswith("f1-cmc-figure") for name in reader.ids) == 1
    text = words(reader)
    assert "Comparison: Same label, leave one out" in text
    assert "two against one: mAP" in text
    assert '<td class="letter">b</td><th scope="row">two</th>' in page.read_text()
    assert "Queries that changed most: two - one" in text


def test_results_of_different_protocols_are_not_compared(both: Path) -> None:
    text = words(read(both))
    assert "judged by different protocols: each stands for itself, and they are not" in text
    assert "Comparison:" not in text


@pytest.mark.usefixtures("quick")
def test_results_that_belong_together_are_compared_beside_others(tmp_path: Path) -> None:
    text = words(read(write_report([people(), people(4), places()], tmp_path)))
    assert "different protocols: only those that belong together are compared" in text
    assert "each stands for itself" not in text
    assert "Comparison: Same label, leave one out" in text


@pytest.mark.usefixtures("quick")
def test_results_of_other_queries_are_not_compared(tmp_path: Path) -> None:
    made = people()
    other = replace(made, inputs={**made.inputs, "query": "other"})
    text = words(read(write_report([made, other], tmp_path, names=["a", "b"])))
    assert "of different query sets: each stands for itself" in text
    assert "Comparison:" not in text


@pytest.mark.usefixtures("quick")
def test_broken_and_missing_pictures_leave_a_place(tmp_path: Path) -> None:
    def missing(name: str) -> bytes:
        raise OSError(name)

    made = places()
    broken = Images(query=lambda _: b"broken", gallery=missing)
    reader = read(write_report([made], tmp_path, [broken]))
    assert not [tag for tag, _ in reader.found if tag == "img"]
    labels = [attrs["aria-label"] or "" for _, attrs in reader.found if attrs.get("role") == "img"]
    assert any(label.endswith(", no picture") for label in labels)


@pytest.mark.usefixtures("quick")
def test_strange_titles_and_ids_stay_text(tmp_path: Path) -> None:
    made, evil = people(), '<script>alert("1")</script>&'
    protocol = made.protocol.model_copy(update={"title": evil, "note": evil, "task": evil})
    rankings = made.rankings
    assert rankings is not None
    odd = replace(
        made,
        protocol=protocol,
        per_query=made.per_query.assign(query_id=[f"{evil}{i}" for i in range(12)], label=evil),
        rankings=rankings.assign(item_id=evil, query_id=evil + "1"),
    )
    reader = read(write_report([odd, odd], tmp_path, [images(made)] * 2))
    scripts = [attrs for tag, attrs in reader.found if tag == "script"]
    assert [attrs.get("type") for attrs in scripts] == ["application/json"] * 2 + [None]
    assert not [name for _, attrs in reader.found for name in attrs if name == "onerror"]
    assert evil in words(reader)


@pytest.mark.usefixtures("quick")
def test_at_most_the_worst_500_queries(tmp_path: Path) -> None:
    made = people()
    table = made.per_query
    rows = table.iloc[[i % 12 for i in range(600)]].reset_index(drop=True)
    many = replace(made, per_query=rows, ranking=None)
    reader = read(write_report([many], tmp_path))
    assert "The 500 worst of 600 queries, by average precision" in words(reader)
    assert sum(attrs.get("class") == "id" for tag, attrs in reader.found if tag == "td") == 1000


@pytest.mark.usefixtures("quick")
def test_ties_are_shown_where_they_matter(tmp_path: Path) -> None:
    made = people()
    ties = {name: dict(bounds) for name, bounds in made.ties.items()}
    ties["mAP"] |= {"pessimistic": 0.25, "optimistic": 0.5}
    assert "With ties" not in words(read(write_report([made], tmp_path)))
    text = words(read(write_report([replace(made, ties=ties)], tmp_path)))
    assert "25.0 to 50.0" in text
    assert "the mean over all orders" in text


@pytest.mark.usefixtures("quick")
def test_counts_that_are_not_the_published_ones_are_pointed_out(tmp_path: Path) -> None:
    made = people()
    expected = made.protocol.expected.model_copy(update={"n_query": 12, "n_gallery": [41, 42]})
    odd = replace(made, protocol=made.protocol.model_copy(update={"expected": expected}))
    text = words(read(write_report([odd], tmp_path)))
    assert "1 of 2 counts differ" in text
    assert "differs 41 or 42" in text


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_without_lists_the_page_says_how_to_get_them(tmp_path: Path) -> None:
    made = replace(people(), rankings=None)
    assert "holds no top-k lists" in words(read(write_report([made], tmp_path, [images(made)])))
    assert "top-k lists" not in words(read(write_report([made], tmp_path)))


def test_what_does_not_belong_together_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AlignmentError, match="no result"):
        write_report([], tmp_path)
    with pytest.raises(AlignmentError, match="images for 1 of 2"):
        write_report([people(), people()], tmp_path, [None])
    with pytest.raises(AlignmentError, match="1 name for 2"):
        write_report([people(), people()], tmp_path, names=["a"])


def test_columns_that_say_nothing_are_left_out(tmp_path: Path) -> None:
    """Saved and read back, an empty unit is a missing value."""
    result = people()
    empty = replace(result, per_query=result.per_query.assign(unit=""))
    empty.save(tmp_path / "run")
    for one in (empty, Result.load(tmp_path / "run")):
        assert "unit" not in [column.key for column in query_table(one).columns]
