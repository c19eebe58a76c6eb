"""The files a third party gets, and the model the third party fits to them.

Training factors with responses, test factors without, the guide and the penalty rows of the modified
design. Neither loadings nor features, nor the number of features. Rows are sorted by the first factor, so
that their order reveals nothing more.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpcape.core.arrays import FloatArray
from dpcape.core.errors import Failed
from dpcape.factor_release.recommended import LASSO_FRACTIONS, RIDGES, RecommendedModel, fit_recommended
from dpcape.factor_release.subjects import Calibration, SubjectDraws

FORMAT = "dpcape factor release 1"
NO_GUARANTEE = "This release has no differential-privacy guarantee."


@dataclass(frozen=True)
class Bundle:
    """What is released: K factors and q covariates per person, and what the recommended model needs."""

    factors: FloatArray  # n_train x K
    factors_test: FloatArray  # n_test x K
    covariates: FloatArray | None  # n_train x q
    covariates_test: FloatArray | None  # n_test x q
    response: FloatArray | None  # n_train
    fold: NDArray[np.int_] | None  # n_train
    root: FloatArray | None  # K x K
    guide: FloatArray | None  # K
    fold_guides: FloatArray | None  # n_folds x K
    draws: FloatArray | None = None  # n_draws x (n_train + n_test) x K


@dataclass(frozen=True)
class ThirdPartyFit:
    """The recommended model as the third party fits it, and its predictions of the test rows."""

    model: RecommendedModel
    predictions: FloatArray


def bundle_of(
    subjects: SubjectDraws,
    calibration: Calibration | None,
    factors: FloatArray,
    factors_test: FloatArray,
    *,
    n_draws: int,
) -> Bundle:
    """Return what the third party gets of fitted subjects, with ``n_draws`` posterior draws of their factors."""
    step = max(1, len(subjects.draws) // n_draws) if n_draws else 0
    return Bundle(
        factors=factors,
        factors_test=factors_test,
        covariates=subjects.covariates,
        covariates_test=subjects.covariates_test,
        response=subjects.response,
        fold=None if calibration is None else calibration.fold,
        root=None if calibration is None else calibration.root,
        guide=None if calibration is None else calibration.guide,
        fold_guides=None if calibration is None else calibration.fold_guides,
        draws=subjects.draws[::step][:n_draws] if step else None,
    )


def fit_bundle(
    bundle: Bundle, *, ridges: Sequence[float] = RIDGES, fractions: Sequence[float] = LASSO_FRACTIONS
) -> ThirdPartyFit:
    """Fit the recommended model over a grid of ridge and lasso weights and predict the test rows.

    Parameters
    ----------
    bundle : Bundle
        From :func:`read_bundle`.
    ridges : sequence of float
        Ridge weights to try, positive.
    fractions : sequence of float
        Lasso weights to try, as fractions (0 to 1) of the one at which the model equals the guide.
    """
    if bundle.response is None or bundle.fold is None or bundle.root is None:
        raise Failed(
            "The model cannot be fitted", "the bundle has no responses", "Ask the holder for a release with responses."
        )
    if bundle.guide is None or bundle.fold_guides is None:
        raise Failed("The model cannot be fitted", "guides.csv is missing", "Ask the holder for the complete release.")
    model = fit_recommended(
        bundle.factors,
        bundle.response,
        covariates=bundle.covariates,
        root=bundle.root,
        guide=bundle.guide,
        fold=bundle.fold,
        fold_guides=bundle.fold_guides,
        ridges=tuple(ridges),
        fractions=tuple(fractions),
    )
    return ThirdPartyFit(model, model.predict(bundle.factors_test, bundle.covariates_test))


def sorted_bundle(bundle: Bundle) -> tuple[Bundle, NDArray[np.intp], NDArray[np.intp]]:
    """Return the bundle with rows sorted by the first factor, and the two orders."""
    train, test = np.argsort(bundle.factors[:, 0]), np.argsort(bundle.factors_test[:, 0])
    draws = bundle.draws
    if draws is not None:
        draws = draws[:, np.concatenate([train, len(train) + test])]
    ordered = Bundle(
        factors=bundle.factors[train],
        factors_test=bundle.factors_test[test],
        covariates=None if bundle.covariates is None else bundle.covariates[train],
        covariates_test=None if bundle.covariates_test is None else bundle.covariates_test[test],
        response=None if bundle.response is None else bundle.response[train],
        fold=None if bundle.fold is None else bundle.fold[train],
        root=bundle.root,
        guide=bundle.guide,
        fold_guides=bundle.fold_guides,
        draws=draws,
    )
    return ordered, train, test


def codes(letter: str, count: int) -> list[str]:
    """Return row codes such as a0001."""
    return [f"{letter}{i + 1:04d}" for i in range(count)]


def _write_csv(path: Path, header: list[str], rows: list[list[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(header)
        writer.writerows(rows)


def _cells(values: FloatArray) -> list[object]:
    return [f"{v:.10g}" for v in values]


def _part_rows(letter: str, factors: FloatArray, covariates: FloatArray | None) -> list[list[object]]:
    extra = np.empty((len(factors), 0)) if covariates is None else covariates
    names = codes(letter, len(factors))
    return [[name, *_cells(f), *_cells(c)] for name, f, c in zip(names, factors, extra, strict=True)]


def write_bundle(bundle: Bundle, folder: Path) -> None:
    """Write the third party's folder."""
    folder.mkdir(parents=True, exist_ok=True)
    factor_names = [f"factor_{k + 1}" for k in range(bundle.factors.shape[1])]
    q = 0 if bundle.covariates is None else bundle.covariates.shape[1]
    covariate_names = [f"covariate_{c + 1}" for c in range(q)]
    training = _part_rows("a", bundle.factors, bundle.covariates)
    header = ["code", *factor_names, *covariate_names]
    _write_csv(folder / "test.csv", header, _part_rows("b", bundle.factors_test, bundle.covariates_test))
    if bundle.response is not None and bundle.fold is not None:
        for row, y, fold in zip(training, bundle.response, bundle.fold, strict=True):
            row.extend([f"{y:.10g}", int(fold)])
        header = [*header, "response", "fold"]
    _write_csv(folder / "training.csv", header, training)
    _write_model_files(bundle, folder, factor_names)
    if bundle.draws is not None:
        np.savez_compressed(folder / "draws.npz", draws=bundle.draws)
    _write_descriptions(bundle, folder, covariate_names)


def _write_model_files(bundle: Bundle, folder: Path, names: list[str]) -> None:
    if bundle.root is None or bundle.guide is None or bundle.fold_guides is None:
        return
    guides: list[list[object]] = [["all", *_cells(bundle.guide)]]
    guides += [[str(i), *_cells(g)] for i, g in enumerate(bundle.fold_guides)]
    _write_csv(folder / "guides.csv", ["without_fold", *names], guides)
    _write_csv(folder / "penalty_rows.csv", names, [_cells(row) for row in bundle.root])


DICTIONARY = [
    ("training.csv, test.csv", "code", "row label in the order of the first factor; meaningless elsewhere"),
    ("training.csv, test.csv", "factor_k", "posterior mean of latent factor k; about unit variance"),
    ("training.csv, test.csv", "covariate_c", "covariate c as the holder gave it, if there are any"),
    ("training.csv", "response", "response of a training subject, in its own unit; never of a test subject"),
    ("training.csv", "fold", "fold in which the row is held out when the model's weights are chosen"),
    ("guides.csv", "without_fold", "fold whose rows the guide has not seen; 'all' has seen every row"),
    ("guides.csv", "factor_k", "coefficient of factor k that imitates a regression on the features"),
    ("penalty_rows.csv", "factor_k", "column k of triangular R; sqrt(ridge) R is appended to the factors"),
    ("draws.npz", "draws", "draws x rows x factors, training rows then test rows; present only if released"),
]  # fmt: skip

README = """Factor release
==============

{statement}
Factors are computed from people's records. Treat this folder as personal data: do not publish it and do
not try to link its rows to people.

training.csv  {n_train} rows: {n_factors} factors{covariates}{response}
test.csv      {n_test} rows: the same without responses

Recommended model, for factors E, responses y, guide b (guides.csv) and penalty rows R (penalty_rows.csv):
  regress [y - E b; -sqrt(ridge) R b] on [E; sqrt(ridge) R] by Lasso with weight lasso; add b to the result.
Intercept and covariates are not penalised. Choose ridge and lasso by the given folds, each with the guide
that has not seen it. In Python: dpcape.factor_release.fit_bundle(dpcape.factor_release.read_bundle(folder)).

data_dictionary.csv explains every column.
"""


def _write_descriptions(bundle: Bundle, folder: Path, covariate_names: list[str]) -> None:
    _write_csv(folder / "data_dictionary.csv", ["file", "column", "meaning"], [list(row) for row in DICTIONARY])
    text = README.format(
        statement=NO_GUARANTEE,
        n_train=len(bundle.factors),
        n_test=len(bundle.factors_test),
        n_factors=bundle.factors.shape[1],
        covariates=f", {len(covariate_names)} covariates" if covariate_names else "",
        response=", response, fold" if bundle.response is not None else "",
    )
    (folder / "README.txt").write_text(text, encoding="utf-8")
    manifest = {"format": FORMAT, "statement": NO_GUARANTEE, "n_factors": bundle.factors.shape[1]}
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
