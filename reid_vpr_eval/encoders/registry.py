"""Which encoders there are, and how one is found by its name."""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, TypeAlias, TypeVar

import numpy.typing as npt
from PIL import Image

from reid_vpr_eval.errors import ScoreError

__all__ = ["ENCODERS", "Encoder", "encoder", "encoder_version", "load_encoder"]

#: Turns a batch of RGB images into an array (n, d), one vector a row.
Encoder: TypeAlias = Callable[[Sequence[Image.Image]], npt.ArrayLike]

_Registered = TypeVar("_Registered", bound=Encoder)

_encoders: dict[str, Encoder] = {}
_versions: dict[str, str] = {}

#: The registered encoders by name, in the order of registration.
ENCODERS: Mapping[str, Encoder] = MappingProxyType(_encoders)


def encoder(name: str, *, version: str | None = None) -> Callable[[_Registered], _Registered]:
    """Register a function as the encoder of this name.

    Parameters
    ----------
    name : str
        How the encoder is called on the command line; without a colon, which marks
        ``module:function``.
    version : str, optional
        Changes whenever the vectors change, so that older cached vectors are not used.
        Without it, the content of the file that defines the function is the version.

    Raises
    ------
    ScoreError
        If the name is taken, is empty or holds a colon.

    Examples
    --------
    >>> @encoder("colour-texture")
    ... def mine(images):
    ...     return [[1.0] for _ in images]
    Traceback (most recent call last):
    ...
    reid_vpr_eval.errors.ScoreError: there is an encoder 'colour-texture' already: choose another \
name
    """

    def register(function: _Registered) -> _Registered:
        if not name or ":" in name:
            raise ScoreError(
                f"an encoder cannot be named {name!r}: a name is not empty and has no colon"
            )
        if name in _encoders:
            raise ScoreError(f"there is an encoder {name!r} already: choose another name")
        _encoders[name] = function
        if version is not None:
            _versions[name] = version
        return function

    return register


def load_encoder(name: str) -> Encoder:
    """Return the encoder of a name: a registered one, or ``module:function``.

    The module may lie in the current directory.

    Raises
    ------
    ScoreError
        If no encoder has this name, the module is not found or has no such attribute,
        or what was found cannot be called.

    Examples
    --------
    >>> load_encoder("thumbnail") is ENCODERS["thumbnail"]
    True
    """
    if name in _encoders:
        return _encoders[name]
    known = ", ".join(sorted(_encoders))
    module_name, colon, attribute = name.partition(":")
    if not colon:
        raise ScoreError(
            f"unknown encoder {name!r}; known: {known}; or name one of your own as module:function"
        )
    if not module_name or not attribute:
        raise ScoreError(
            f"encoder {name!r} is not of the form module:function, as in my_model:encode"
        )
    module = _import(module_name, name)
    try:
        found: Any = reduce(getattr, attribute.split("."), module)
    except AttributeError:
        public = ", ".join(sorted(key for key in vars(module) if not key.startswith("_"))) or "none"
        raise ScoreError(
            f"encoder {name!r}: module {module_name!r} ({_file_of(module) or 'no file'}) has no "
            f"{attribute!r}; its names: {public}"
        ) from None
    if not callable(found):
        raise ScoreError(
            f"encoder {name!r} is a {type(found).__name__}, not a function that takes a list of "
            "images and returns one vector for each"
        )
    return found  # type: ignore[no-any-return]


def encoder_version(name: str) -> str | None:
    """Return what the vectors of an encoder depend on, as text, or None if that is unknown.

    Either the version it was registered with, or the SHA-256 of the file that defines it.
    What a module reads besides (weights, other modules) is not seen.

    >>> encoder_version("thumbnail")
    '1'
    """
    if name in _versions:
        return _versions[name]
    if name in _encoders:
        module = sys.modules.get(str(getattr(_encoders[name], "__module__", "")))
    else:
        module = sys.modules.get(name.partition(":")[0])
    file = _file_of(module)
    return None if file is None else hashlib.sha256(file.read_bytes()).hexdigest()


def _file_of(module: ModuleType | None) -> Path | None:
    file = getattr(module, "__file__", None)
    return Path(file) if file and Path(file).is_file() else None


def _import(module_name: str, name: str) -> ModuleType:
    with _current_directory_importable():
        try:
            return importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            missing = error.name or module_name
            if module_name == missing or module_name.startswith(f"{missing}."):
                raise ScoreError(
                    f"encoder {name!r}: no module {missing!r}, neither installed nor in the "
                    f"current directory ({Path.cwd()}); check the spelling, or add its folder to "
                    "PYTHONPATH"
                ) from None
            raise ScoreError(
                f"encoder {name!r}: module {module_name!r} needs the package {missing!r}, which "
                "is not installed: install it"
            ) from error
        except Exception as error:
            raise ScoreError(
                f"encoder {name!r}: module {module_name!r} fails when it is imported "
                f"({type(error).__name__}: {error}); mend the module"
            ) from error


@contextmanager
def _current_directory_importable() -> Iterator[None]:
    here = os.getcwd()
    importlib.invalidate_caches()
    if here in sys.path or "" in sys.path:
        yield
        return
    sys.path.insert(0, here)
    try:
        yield
    finally:
        sys.path.remove(here)
