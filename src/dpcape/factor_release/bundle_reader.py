"""Reading the third party's folder."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape.core.errors import DamagedFile, InvalidParameter
from dpcape.factor_release.bundle import FORMAT, Bundle


def _read_csv(path: Path) -> dict[str, list[str]]:
    with path.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.reader(stream))
    return {name: [row[i] for row in rows[1:]] for i, name in enumerate(rows[0])}


def _numbers(table: dict[str, list[str]], prefix: str) -> FloatArray | None:
    """Return the columns prefix_1, prefix_2, ... side by side, or None if there is none."""
    names = [name for name in table if name.startswith(prefix + "_")]
    if not names:
        return None
    return np.array([[float(cell) for cell in table[name]] for name in names]).T.reshape(-1, len(names))


def _required(table: dict[str, list[str]], prefix: str, name: str) -> FloatArray:
    values = _numbers(table, prefix)
    if values is None:
        raise DamagedFile(
            f"{name} has no columns {prefix}_1, {prefix}_2, ...", remedy="Ask the holder for the release again."
        )
    return values


def read_bundle(folder: str | os.PathLike[str]) -> Bundle:
    """Read a folder written by a release; a test table with responses is refused."""
    root = Path(folder)
    manifest = json.loads((root / "manifest.json").read_text(encoding="utf-8"))
    if manifest.get("format") != FORMAT:
        raise InvalidParameter(
            "The folder", f"be a {FORMAT!r}", repr(manifest.get("format")), "Use the dpcape version that wrote it."
        )
    training, test = _read_csv(root / "training.csv"), _read_csv(root / "test.csv")
    if "response" in test:
        raise InvalidParameter("test.csv", "not hold responses", "a response column", "Remove the column.")
    has_response = "response" in training
    guides = _required(_read_csv(root / "guides.csv"), "factor", "guides.csv") if has_response else None
    draws_path = root / "draws.npz"
    return Bundle(
        factors=_required(training, "factor", "training.csv"),
        factors_test=_required(test, "factor", "test.csv"),
        covariates=_numbers(training, "covariate"),
        covariates_test=_numbers(test, "covariate"),
        response=np.array([float(v) for v in training["response"]]) if has_response else None,
        fold=np.array([int(v) for v in training["fold"]]) if has_response else None,
        root=_required(_read_csv(root / "penalty_rows.csv"), "factor", "penalty_rows.csv") if has_response else None,
        guide=None if guides is None else guides[0],
        fold_guides=None if guides is None else guides[1:],
        draws=_read_draws(draws_path) if draws_path.exists() else None,
    )


def _read_draws(path: Path) -> FloatArray:
    with np.load(path, allow_pickle=False) as stored:
        return np.asarray(stored["draws"], dtype=np.float64)
