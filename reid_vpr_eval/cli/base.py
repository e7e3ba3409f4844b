"""What all commands share: the application, errors as a few lines, progress."""

from __future__ import annotations

import functools
import os
import re
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Annotated, Any

import typer

from reid_vpr_eval import __version__
from reid_vpr_eval.errors import EvaluationWarning, ProtocolError, ReidVprEvalError

__all__ = ["app", "command_line", "guarded", "progress", "red", "size", "warn"]

app = typer.Typer(
    name="rve",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Evaluate re-identification, place recognition and other retrieval, exactly.",
    epilog="Begin with `rve demo`, or with `rve protocols list` and then "
    "`rve run PROTOCOL --query Q --gallery G`; each command has its own --help.",
)


def size(text: str | None) -> str | None:
    """Check a size such as 512MiB as it is typed."""
    if text is not None and not re.fullmatch(r"\d+(\.\d+)?([kmg]i?)?b?", text.strip().lower()):
        raise typer.BadParameter(f"{text!r}: a size such as 512MiB or 2GB is needed")
    return text


#: Options that change no number: where things go, how they are shown, what work is done by.
_WITHOUT_EFFECT = {"out", "overwrite", "format", "report", "chance", "cache", "memory", "workers",
                   "checkpoint", "dask"}  # fmt: skip


def command_line(context: typer.Context) -> str:
    """Return what to type to have the numbers of a command again.

    Only what was given and matters is in it, so that it is the same wherever results went.
    """
    words = ["rve", str(context.info_name)]
    for parameter in context.command.params:
        name, value = str(parameter.name), context.params.get(str(parameter.name))
        if name in _WITHOUT_EFFECT or value is None or value == parameter.default:
            continue
        option = next((opt for opt in parameter.opts if opt.startswith("--")), "")
        if value is True:
            words.append(option)
            continue
        for one in value if isinstance(value, list | tuple) else [value]:
            text = str(one.value if isinstance(one, Enum) else one)
            words += [option, text] if option else [text]
    return shlex.join(words)


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """Turn the project's errors into a few lines and an exit code."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("always", EvaluationWarning)
                warnings.showwarning = _show_warning
                command(*args, **kwargs)
        except ReidVprEvalError as error:
            typer.echo(f"{red('error')}: {error}", err=True)
            raise typer.Exit(2 if _is_unknown_protocol(error) else 1) from None
        except BrokenPipeError:  # who reads the output has had enough, which is no error to tell
            raise
        except (OSError, MemoryError) as error:
            typer.echo(f"{red('error')}: {error or type(error).__name__}", err=True)
            raise typer.Exit(1) from None

    return run


def _is_unknown_protocol(error: ReidVprEvalError) -> bool:
    said = ("no protocol is called", "no such protocol file", "no profile is called",
            "no such profile file")  # fmt: skip
    return isinstance(error, ProtocolError) and any(text in str(error) for text in said)


def red(text: str) -> str:
    """Return a text in red, where it is read on a terminal that shows colours."""
    plain = "NO_COLOR" in os.environ or not sys.stderr.isatty()
    return text if plain else f"\033[31m{text}\033[0m"


def warn(text: str) -> None:
    """Say something that does not stop a command."""
    typer.echo(f"warning: {text}", err=True)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    warn(str(message))


@contextmanager
def progress() -> Iterator[Callable[[str, int, int], None] | None]:
    """Show progress with an estimate, on a terminal only."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, Any] = {}

        def step(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total)
            bar.update(tasks[what], completed=done, total=total)

        yield step


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"reid_vpr_eval {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    """Evaluate re-identification, place recognition and other retrieval, exactly."""
