"""Finding and reading protocol files."""

from __future__ import annotations

import difflib
import os
import tomllib
from pathlib import Path

from reid_vpr_eval.errors import ProtocolError
from reid_vpr_eval.protocol.protocol import Protocol

__all__ = ["list_protocols", "load_protocol", "protocol_folder"]


def protocol_folder() -> Path:
    """Return the folder of the shipped protocols."""
    here = Path(__file__).parents[1]
    inside = here / "protocols"
    return inside if inside.is_dir() else here.parent / "protocols"


def list_protocols() -> list[str]:
    """Return the names of the shipped protocols, sorted.

    >>> "market1501" in list_protocols()
    True
    """
    return sorted(path.stem for path in protocol_folder().glob("*.toml"))


def load_protocol(name: str | os.PathLike[str]) -> Protocol:
    """Load a shipped protocol by name, or any by the path of its file.

    Raises
    ------
    ProtocolError
        If there is none of this name (close ones are offered), or the file is malformed.
    """
    text = os.fspath(name)
    is_path = isinstance(name, os.PathLike) or text.endswith(".toml") or os.sep in text
    path = Path(text) if is_path else protocol_folder() / f"{text}.toml"
    if not path.is_file():
        if is_path:
            raise ProtocolError(f"{path}: no such protocol file")
        near = difflib.get_close_matches(text, list_protocols(), n=3, cutoff=0.5)
        offer = f"did you mean {' or '.join(near)}?" if near else "rve protocols list names them"
        raise ProtocolError(f"no protocol is called {text!r}; {offer}")
    try:
        content = tomllib.loads(path.read_bytes().decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ProtocolError(f"{path} is not valid TOML: {error}") from None
    return Protocol.from_dict(content, source=str(path))
