"""Hand out factors instead of features, read the risk report, and predict as the third party.

Run: python examples/factor_release.py [folder]
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import mkdtemp

import numpy as np

import dpcape
from dpcape.factor_release import FactorRelease, PrivateFactorModel, fit_bundle, read_bundle

# Made data: 120 subjects, 2,000 features driven by 6 factors, a response that depends on two of them.
rng = np.random.default_rng(7)
latent = rng.standard_normal((120, 6))
X = latent @ rng.standard_normal((6, 2000)) + rng.standard_normal((120, 2000))
y = latent[:, 0] - latent[:, 1] + 0.3 * rng.standard_normal(120)
age, sex = np.round(rng.uniform(8, 21, 120), 1), rng.integers(0, 2, 120)  # released as they are
covariates = np.column_stack([age, sex])
train, test = np.arange(80), np.arange(80, 120)

# The holder: sample the factor model, write the release and its risk report.
model = FactorRelease("adaptive", n_burn_in=300, n_draws=100, random_state=1)
model.fit(X[train], y[train], X_test=X[test], covariates=covariates[train], covariates_test=covariates[test])
folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(mkdtemp())
paths = model.release(folder)
print(f"{model.n_factors_} factors; release in {paths.third_party}, risk report in {paths.risk_page}")
print(model.risk_.statement)
for title, attack in (("largest attack", model.risk_.headline), ("knowing no features", model.risk_.without_features)):
    if attack is not None:
        print(f"{title}: {attack.goal}, {attack.success:.0%} right; guessing {attack.baseline:.1%}")
        print(f"  the adversary knows {attack.knows}")
for remedy in model.risk_.remedies:
    left = remedy.without_features
    if left is not None:
        print(
            f"  {remedy.name}, knowing no features: {left.goal}, {left.success:.0%} right; guessing {left.baseline:.1%}"
        )

# The third party: fit the recommended model and predict.
fit = fit_bundle(read_bundle(paths.third_party))
print(f"third party: held-out error {fit.model.cv_error:.3f}, {len(fit.predictions)} predictions")

# The holder again, who knows the truth.
error = model.test_error(y[test])
print(f"test error {error.mse:.3f} ({error.low:.3f} to {error.high:.3f}); responses' variance {y[test].var():.3f}")
for name, prediction in model.competitors().items():
    print(f"  {name:30s} {np.mean((prediction - y[test]) ** 2):.3f}")

# The alternative with a guarantee needs many records and few features: here 20,000 records of 10 regions.
many = rng.standard_normal((20_000, 2)) @ rng.standard_normal((2, 10)) * 0.15 + 0.1 * rng.standard_normal((20_000, 10))
federation = dpcape.Federation(dpcape.in_process({"here": dpcape.rows(many, bound=1.5)}), protocol=dpcape.Independent())
private = PrivateFactorModel("auto", epsilon=1.0, delta=1e-6).fit(federation)
print(f"private model: {private.n_factors_} factors")
print(private.guarantee_)
