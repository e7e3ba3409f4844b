"""The tables of a record: rows of text, for the console and for the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.cases import CASES
from benchmarks.peers import TARGETS

__all__ = ["Table", "allowed_memory", "machine_line", "tables"]

Entry = Mapping[str, Any]

_OURS = "reid_vpr_eval"
_FREE, _PER_PAIR, _PER_STRATUM = 256e6, 32, 12
_SECONDS_TO_IMPORT = 0.5


@dataclass(frozen=True, slots=True)
class Table:
    """A table with a heading and what must be known to read it."""

    title: str
    note: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]

    def markdown(self) -> str:
        """Return it as Markdown."""
        lines = [f"## {self.title}", "", self.note, "", _line(self.header),
                 "|" + "---|" * len(self.header), *map(_line, self.rows), ""]  # fmt: skip
        return "\n".join(lines)

    def text(self) -> str:
        """Return it in columns of even width."""
        rows = [self.header, *self.rows]
        widths = [max(len(row[i]) for row in rows) for i in range(len(self.header))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
                 for row in rows]  # fmt: skip
        return "\n".join([self.title, *(line.rstrip() for line in lines), ""])


def tables(record: Entry) -> list[Table]:
    """Return a table for each section that the record has."""
    made = [make(record) for make in _TABLES]
    return [table for table in made if table.rows]


def machine_line(record: Entry) -> str:
    """Return what ran, in a line."""
    known = record["machine"]
    blas = ", ".join(sorted({f"{one['name']} {one['version']} ({one['kernel']} kernels)"
                             for one in known["blas"]})) or "an unknown BLAS"  # fmt: skip
    family = f" (family.model {known['family']})" if known["family"] else ""
    load = record["load_before"]
    return (
        f"{known['processor']}{family}, {known['cores']} cores, {known['system']}, Python "
        f"{known['python']}, numpy {known['numpy']} with {blas}; {record['threads']} workers; "
        f"{record['date']}" + (f"; load before: {load:.1f}" if load is not None else "")
    )


def allowed_memory(entry: Entry) -> float:
    """Return the bytes that a run may take: its data, 256 MB, and some for each judged pair.

    >>> allowed_memory({"data": 1e9, "n_pairs": 1_000_000})
    1300000000.0
    """
    return float(entry["data"] + _FREE + entry["n_pairs"] * (_PER_PAIR + _PER_STRATUM))


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _verdict(record: Entry, ok: bool) -> str:
    """Say whether a goal was reached; goals are for full sizes."""
    if record["shrink"] != 1:
        return "trial"
    return "met" if ok else "**missed**"


def _seconds(values: Sequence[float]) -> str:
    return f"{sorted(values)[len(values) // 2]:.3g}"


def _spread(ratio: Entry) -> str:
    return f"{ratio['least']:.2f} to {ratio['largest']:.2f}"


def _mega(size: float | None) -> str:
    return "-" if size is None else f"{size / 1e6:,.0f}"


def _share(value: float) -> str:
    return "0" if value == 0 else f"{100 * value:.2g} %"


def _size(entry: Entry) -> str:
    return f"{entry['n_query']:,} × {entry['n_gallery']:,} × {entry['dim']:,}"


def _rows(
    entries: Sequence[Entry], width: int, name: Callable[[Entry], tuple[str, ...]],
    rest: Callable[[Entry], tuple[str, ...]],
) -> list[tuple[str, ...]]:  # fmt: skip
    """Return a row for each entry; one that was skipped says why."""
    rows = []
    for entry in entries:
        cells = name(entry)
        filled = (f"skipped: {entry['skipped']}",) if "skipped" in entry else rest(entry)
        rows.append((*cells, *filled, *[""] * (width - len(cells) - len(filled))))
    return rows


def _case(entry: Entry) -> tuple[str, ...]:
    return CASES[entry["case"]].title, entry["kernels"]


def _ratios(record: Entry) -> Table:
    header = ("case", "kernels", "queries × gallery × D", "ours, s", "product, s", "ratio",
              "least to largest", "to reach", "")  # fmt: skip

    def rest(entry: Entry) -> tuple[str, ...]:
        seconds, ratio = entry["seconds"], entry["ratio"]
        return (
            _size(entry), _seconds(seconds["ours"]), _seconds(seconds["product"]),
            f"{ratio['median']:.2f}", _spread(ratio), f"≤ {entry['target']:.2f}",
            _verdict(record, ratio["median"] <= entry["target"]),
        )  # fmt: skip

    measured = [len(entry["seconds"]["ours"]) for entry in record.get("ratios", [])
                if "skipped" not in entry]  # fmt: skip
    rounds = str(min(measured, default=record["rounds"]))
    if len(set(measured)) > 1:
        rounds += f" to {max(measured)}"
    return Table(
        "Against the bare product",
        "The time of a whole evaluation (`rank` and `compute`, features in memory) over that of\n"
        "the float32 matrix product of the same queries with the same kept gallery rows, in the\n"
        "fastest form known: one BLAS thread a worker, tiles of 1024 × 4096, into memory at hand.\n"
        f"Both in one process, in turn; the median of the ratios of {rounds} rounds.\n"
        "Below 1: the square of a leave-one-out is symmetric, and one half of it is enough.",
        header, _rows(record.get("ratios", []), len(header), _case, rest),
    )


def _worlds(record: Entry) -> Table:
    header = ("case", "positives a query", "mAP", "pass the lowest threshold",
              "undecided by float32", "undecided by float64")  # fmt: skip
    first: dict[str, Entry] = {}
    for entry in record.get("ratios", []):
        if "skipped" not in entry:
            first.setdefault(entry["case"], entry)

    def rest(entry: Entry) -> tuple[str, ...]:
        shares = entry["bands"]
        return (
            f"{entry['positives_per_query']:.1f}", f"{shares['mean_ap']:.3f}",
            _share(shares["passing"]), _share(shares["undecided"]), _share(shares["canonical"]),
        )  # fmt: skip

    return Table(
        "How hard the cases are",
        "Features are made up: Gaussian parts for the label and for the image, all with the\n"
        "spectrum (j + 1)^-1/2, weighted to the mAP below. Shares are of the unjudged pairs of 64\n"
        "queries: those not surely below the query's lowest threshold; those so near to one that\n"
        "the error bound of a float32 product does not decide; those that the bound of a float64\n"
        "product does not decide either, so that only the canonical score does. (Where few pairs\n"
        "of a tile are undecided by float32, they get their canonical score at once.)",
        header,
        _rows(list(first.values()), len(header), lambda entry: (_case(entry)[0],), rest),
    )


def _memory(record: Entry) -> Table:
    header = ("case", "kernels", "data", "process before", "process at most", "allowed", "")

    def rest(entry: Entry) -> tuple[str, ...]:
        allowed = allowed_memory(entry)
        return (_mega(entry["data"]), _mega(entry["before"]), _mega(entry["peak"]),
                _mega(allowed), _verdict(record, entry["peak"] <= allowed))  # fmt: skip

    return Table(
        "Memory",
        "Resident memory of the whole process, interpreter and libraries included, in MB. Data\n"
        "are the features and the relevance. Allowed are the data, 256 MB, and 44 bytes a judged\n"
        "pair.",
        header, _rows(record.get("memory", []), len(header), _case, rest),
    )


def _scaling(record: Entry) -> Table:
    header = ("queries × gallery × D", "ours, s", "product, s", "ratio", "least to largest",
              "memory beyond the data, MB")  # fmt: skip

    def rest(entry: Entry) -> tuple[str, ...]:
        seconds, ratio = entry["seconds"], entry["ratio"]
        return (_size(entry), _seconds(seconds["ours"]), _seconds(seconds["product"]),
                f"{ratio['median']:.2f}", _spread(ratio), _mega(entry["beyond"]))  # fmt: skip

    return Table(
        "Growth with the gallery", "Time is proportional to the gallery, memory beyond it is not.",
        header, _rows(record.get("scaling", []), len(header), lambda _: (), rest),
    )


def _forms(record: Entry) -> Table:
    header = ("what", "case", "seconds", "seconds", "ratio", "least to largest", "same numbers")
    entries = [{**entry, "section": section} for section in ("shards", "workers", "strata")
               for entry in record.get(section, [])]  # fmt: skip

    def rest(entry: Entry) -> tuple[str, ...]:
        seconds, ratio = entry["seconds"], entry["ratio"]
        cells = tuple(f"{name}: {_seconds(values)}" for name, values in seconds.items())
        return (*cells, f"{ratio['median']:.2f}", _spread(ratio), "yes" if entry["same"] else "NO")

    return Table(
        "Shards, workers, strata",
        "The same evaluation in two forms, in turn; the ratio is the second over the first.\n"
        "Shards are read from files that the system has in its cache.",
        header,
        _rows(entries, len(header), lambda entry: (entry["section"], _case(entry)[0]), rest),
    )


def _imports(record: Entry) -> Table:
    header = ("`import reid_vpr_eval`, s", "with `evaluate` and `rank` loaded, s", "to reach", "")

    def rest(entry: Entry) -> tuple[str, ...]:
        ok = entry["bare"] <= _SECONDS_TO_IMPORT and not entry["compiler"]
        return (f"{entry['bare']:.3f}", f"{entry['used']:.2f}", f"≤ {_SECONDS_TO_IMPORT}",
                _verdict(record, ok))  # fmt: skip

    return Table("Import", "No compiler is loaded before a job is worth it.", header,
                 _rows(record.get("import", []), len(header), lambda _: (), rest))  # fmt: skip


def _peers(record: Entry) -> Table:
    header = ("case", "tool", "gives", "seconds", "× ours", "least to largest", "to reach", "",
              "memory, MB", "largest difference")  # fmt: skip

    def rest(entry: Entry) -> tuple[str, ...]:
        cells = (", ".join(entry["metrics"]), f"{entry['seconds']['median']:.3g}")
        if entry["peer"] == "ours":
            return (*cells, "1", "", "", "", _mega(entry["peak"]), "")
        wanted, ratio = TARGETS.get((entry["case"], entry["peer"])), entry["ratio"]
        target = ("", "")
        if wanted is not None:
            target = (f"≥ {wanted:g}", _verdict(record, ratio["median"] >= wanted))
        return (*cells, f"{ratio['median']:.2f}", _spread(ratio), *target, _mega(entry["peak"]),
                f"{entry['apart']:.1e}")  # fmt: skip

    def name(entry: Entry) -> tuple[str, ...]:
        tool = entry["peer"] if entry["peer"] != "ours" else f"{_OURS} ({entry['kernels']})"
        return entry["case"], tool

    entries = [entry if entry["peer"] != "ours" or "kernels" in entry
               else {**entry, "kernels": "-"} for entry in record.get("peers", [])]  # fmt: skip
    return Table(
        "Against other tools",
        "The same vectors (of length 1) and labels from files, nothing ignored but the query\n"
        "itself; each tool in a process of its own, in turn, with its own threads; from features\n"
        "in memory to numbers, after a small run that loads and compiles. The difference is that\n"
        "of the metrics which both give.",
        header, _rows(entries, len(header), name, rest),
    )


_TABLES = (_ratios, _worlds, _memory, _scaling, _forms, _imports, _peers)
