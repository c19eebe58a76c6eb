"""After the first release no fit raises: whatever noise does, there is a result, perhaps with a warning."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from dpcape import Cape, Federation, Independent, JointICA, Replay, in_process, subjects
from dpcape.errors import DpcapeWarning

from .estimator_case import EstimatorCase, all_estimators

CASES = all_estimators()
N_SEEDS = 12
# Far below what any analysis needs: every release is noise.
SETTINGS = ((0.01, 1e-9), (0.3, 1e-6))


def fit(model: Any, records: dict[str, Any], protocol: Any, seed: int) -> Any:
    """Fit, letting warnings of dpcape pass; warnings of numpy and scipy count as errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DpcapeWarning)
        return model.fit(Federation(in_process(records, noise=Replay(seed)), protocol=protocol))


@pytest.mark.parametrize(("epsilon", "delta"), SETTINGS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_fit_raises_after_its_first_release(case: EstimatorCase, epsilon: float, delta: float) -> None:
    records = case.records()
    for seed in range(N_SEEDS):
        protocol = Independent() if seed % 2 else Cape(n_colluding=1)
        model = fit(case.make(epsilon, delta), records, protocol, seed)
        assert model.releases_
        for name in case.fitted:
            assert np.isfinite(np.asarray(getattr(model, name), dtype=np.float64)).all()


@pytest.mark.parametrize("unit", ["record", "subject"])
@pytest.mark.parametrize("solver", ["moment", "infomax"])
@pytest.mark.parametrize("kurtosis", ["positive", "mixed"])
def test_joint_ica_survives_singular_whitening(unit: str, solver: str, kurtosis: str) -> None:
    """In three of twelve such settings the unmixing was singular, and a paid fit ended in LinAlgError."""
    for seed in range(N_SEEDS):
        generator = np.random.default_rng(seed)
        held = {
            name: subjects(
                [generator.normal(size=(12, 4)) for _ in range(2)], bound=1.0, unit=unit, rows_per_subject=12
            )
            for name in "abc"
        }
        model = JointICA(
            3, epsilon=0.01, delta=1e-9, solver=solver, kurtosis=kurtosis, n_timepoints=12, n_iter=3, insist=True
        )
        fitted = fit(model, held, Cape(n_colluding=0), seed)
        assert np.isfinite(fitted.mixing_).all()
        assert np.isfinite(fitted.unmixing_).all()
