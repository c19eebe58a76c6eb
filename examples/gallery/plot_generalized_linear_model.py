"""
Rates of visits
===============

How often people visit a clinic, by age, sex and distance, at four clinics: a Poisson model with ratios of rates, their
intervals and p-values.
"""

import matplotlib.pyplot as plt
import numpy as np

from dpcape import Cape, Federation, GeneralizedLinearModel, in_process, labelled

# %%
# The records
# -----------
# Ranges are public and become -1 to 1, so a coefficient is the change of the log-rate over half a range.

RANGES = {"age": (18, 90), "sex": (0, 1), "distance": (0, 60)}
TRUTH = {"age": 0.01 * 36, "sex": 0.3 * 0.5, "distance": 0.0}


def clinic(seed, n_people=8000):
    source = np.random.default_rng(seed)
    age, sex = source.uniform(18, 90, n_people), source.integers(0, 2, n_people)
    distance = source.uniform(0, 60, n_people)
    visits = source.poisson(np.exp(0.5 + 0.01 * (age - 54) + 0.3 * (sex - 0.5)))
    X = np.column_stack([age, sex, distance])
    return labelled(X, visits, ranges=list(RANGES.values()), bound=1.5, response=(0, 30))


held = {name: clinic(seed) for seed, name in enumerate(("lima", "lyon", "oslo", "rome"))}
federation = Federation(in_process(held), protocol=Cape(n_colluding=1))
model = GeneralizedLinearModel("poisson", epsilon=1.0, delta=1e-6).fit(federation)

# %%
# Ratios of rates
# ---------------
# The distance has no effect in this simulation; its interval should contain 1.

fig, ax = plt.subplots()
places = np.arange(len(RANGES))
ax.vlines(places, *np.exp(model.interval_), linewidth=2)
ax.plot(places, np.exp(model.coef_), "o", label="released")
ax.plot(places, np.exp(list(TRUTH.values())), "_", color="black", markersize=24, label="truth")
ax.axhline(1, color="0.7", linewidth=0.8)
ax.set_xticks(places, [f"{name}\np = {level:.2g}" for name, level in zip(RANGES, model.p_values_, strict=True)])
ax.set_ylabel("ratio of rates over half a range")
ax.legend(frameon=False)
plt.show()
