"""Files of fitted models: arrays and a description, without code."""

from __future__ import annotations

import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.lib.npyio import NpzFile

from dpcape.core.errors import InvalidParameter
from dpcape.statistics.basis import Basis

FORMAT = "dpcape model 1"
# What reading a damaged file of arrays raises.
DAMAGE = (
    *(OSError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError, EOFError, MemoryError),
    *(RecursionError, NotImplementedError, zipfile.BadZipFile, zlib.error, msgspec.MsgspecError),
)


def npz_path(path: str | Path) -> Path:
    """Return the path with the suffix ``.npz``."""
    return Path(path) if str(path).endswith(".npz") else Path(f"{path}.npz")


def opened_arrays(path: Path) -> NpzFile:
    """Open a file of arrays; refuse any other format, and never unpickle."""
    with path.open("rb") as file:
        if not zipfile.is_zipfile(file):
            raise _unrecognised(path)
        # A damaged list of contents is found here; NumPy would leave the file open.
        zipfile.ZipFile(file).close()
    opened: NpzFile = np.load(path, allow_pickle=False)
    return opened


def about_model(stored: NpzFile, path: str | Path) -> dict[str, Any]:
    """Return the description of a stored model, or refuse a file of another format."""
    if "about" not in stored:
        raise _unrecognised(path)
    about: dict[str, Any] = json.loads(str(stored["about"]))
    if about.get("format") != FORMAT:
        got, remedy = repr(about.get("format")), "Load it with the dpcape version that wrote it."
        raise InvalidParameter(repr(str(path)), f"have the format {FORMAT!r}", got, remedy)
    return about


def _unrecognised(path: str | Path) -> InvalidParameter:
    return InvalidParameter(
        repr(str(path)), "be a model written by save()", "an unrecognised format", "Check the path."
    )


def plain_value(value: object) -> object:
    """Return a NumPy value or a basis as one that JSON can represent."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Basis):
        return value.listed()
    raise TypeError(f"a parameter of type {type(value).__name__} cannot be saved")
