"""protocols list, show and check."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from reid_vpr_eval.cli.base import app, guarded
from reid_vpr_eval.cli.options import (
    ProtocolArgument,
)

protocols_app = typer.Typer(no_args_is_help=True, help="List, show and check protocol files.")
app.add_typer(protocols_app, name="protocols")


@protocols_app.command("list")
@guarded
def list_() -> None:
    """List the shipped protocols by field, with the counts that are checked."""
    from rich.console import Console
    from rich.table import Table

    from reid_vpr_eval.protocol import Protocol, list_protocols, load_protocol

    by_task: dict[str, list[Protocol]] = {}
    for name in list_protocols():
        protocol = load_protocol(name)
        by_task.setdefault(protocol.task, []).append(protocol)
    table = Table(box=None, pad_edge=False)
    for heading in ("name", "title", "queries", "gallery"):
        right = heading in ("queries", "gallery")
        table.add_column(heading, no_wrap=heading == "name", justify="right" if right else "left")
    for number, task in enumerate(sorted(by_task)):
        if number:
            table.add_row()
        table.add_row(f"[bold]{task}[/bold]")
        for protocol in by_task[task]:
            mark = " (withdrawn)" if protocol.status == "withdrawn" else ""
            counts = [_first(protocol.expected.n_query), _first(protocol.expected.n_gallery)]
            table.add_row(f"  {protocol.name}", protocol.title + mark, *counts)
    width = None if sys.stdout.isatty() else 120
    Console(width=width, highlight=False).print(table)


def _first(count: int | list[int] | None) -> str:
    """Return the published count, the first of several."""
    first = count[0] if isinstance(count, list) else count
    return "" if first is None else f"{first:,}"


@protocols_app.command()
@guarded
def show(protocol: ProtocolArgument) -> None:
    """Print a protocol with its defaults filled in, and both hashes."""
    from reid_vpr_eval.protocol import load_protocol

    loaded = load_protocol(protocol)
    typer.echo(f"# judging hash:   {loaded.judging_hash}")
    typer.echo(f"# reporting hash: {loaded.reporting_hash}")
    typer.echo(loaded.to_toml(), nl=False)


@protocols_app.command("check")
@guarded
def check_file(
    file: Annotated[Path, typer.Argument(help="a protocol file")],
) -> None:
    """Check a protocol file and say what is wrong where."""
    from reid_vpr_eval.checks import check_grammars, check_metrics
    from reid_vpr_eval.formats.registry import located
    from reid_vpr_eval.protocol import load_protocol

    protocol = load_protocol(file)
    with located(file):
        check_metrics(protocol)
        check_grammars(protocol)
    typer.echo(f"{file}: a valid protocol, judged by {protocol.judging_hash[:12]}")
