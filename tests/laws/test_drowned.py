"""After the first release no fit raises: whatever noise does, there is a result, perhaps with a warning."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcape import Cape, Federation, Independent, JointICA, Replay, in_process, subjects
from dpcape.core.errors import DpcapeWarning

from .estimator_case import EstimatorCase, all_estimators

CASES = all_estimators()
N_SEEDS = 12
# Far below what any analysis needs: every release is noise.
SETTINGS = ((0.01, 1e-9), (0.3, 1e-6))
# Values that may be NaN, where their intervals are open: a site whose records noise hides has no mean.
UNKNOWN = {
    ("Heterogeneity", "mean_"): "interval_",
    ("Heterogeneity", "pooled_"): "pooled_interval_",
    ("Heterogeneity", "site_means_"): "site_interval_",
}


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
            values = np.asarray(getattr(model, name), dtype=np.float64)
            assert np.isfinite(values[~_said_to_be_unknown(model, name, values)]).all()


def _said_to_be_unknown(model: Any, name: str, values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Tell which values an estimator calls NaN because nothing is known of them: their intervals are open."""
    intervals = UNKNOWN.get((type(model).__name__, name))
    if intervals is None:
        return np.zeros(values.shape, dtype=np.bool_)
    low, high = np.asarray(getattr(model, intervals), dtype=np.float64)
    return np.isnan(values) & np.isinf(low) & np.isinf(high)


@pytest.mark.parametrize("unit", ["record", "subject"])
@pytest.mark.parametrize("solver", ["moment", "infomax"])
@pytest.mark.parametrize("kurtosis", ["positive", "mixed"])
def test_joint_ica_survives_singular_whitening(unit: str, solver: str, kurtosis: str) -> None:
    """In three of twelve such settings the unmixing was singular, and a paid fit ended in LinAlgError."""
    for seed in range(N_SEEDS):
        generator = np.random.default_rng(seed)
        held = {
            name: subjects(
                [generator.normal(size=(12, 4)) for _ in range(2)],
                bound=1.0,
                unit=unit,
                rows_per_subject=12,
                n_features=4,
            )
            for name in "abc"
        }
        model = JointICA(
            3, epsilon=0.01, delta=1e-9, solver=solver, kurtosis=kurtosis, n_timepoints=12, n_iter=3, insist=True
        )
        fitted = fit(model, held, Cape(n_colluding=0), seed)
        assert np.isfinite(fitted.mixing_).all()
        assert np.isfinite(fitted.unmixing_).all()
