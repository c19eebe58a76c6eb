"""
Regression with intervals
=========================

Blood pressure from age, weight and dose at five clinics. Intervals count sampling and privacy noise.
"""

import matplotlib.pyplot as plt
import numpy as np

from dpcape import Cape, Federation, LinearRegression, Replay, in_process, labelled

RANGES = {"age": (20, 90), "weight": (40, 140), "dose": (0, 10)}
# mmHg per half range of each column
TRUTH = np.array([0.4 * 35, 0.3 * 50, -2.0 * 5])
rng = np.random.default_rng(1)


def clinic():
    X = np.column_stack([rng.uniform(25, 85, 800), rng.normal(75, 12, 800), rng.uniform(0, 10, 800)])
    pressure = 100 + X @ [0.4, 0.3, -2.0] + rng.normal(0, 6, 800)
    return labelled(X, pressure, bound=1.2, response=(80, 200), ranges=list(RANGES.values()))


held = {name: clinic() for name in ("kyiv", "lima", "lyon", "oslo", "pune")}

# %%
# The same data at three values of epsilon; each would be a study of its own.

fig, ax = plt.subplots()
looks = {0.3: ("#D55E00", "o"), 1.0: ("#0072B2", "s"), 10.0: ("#CC79A7", "D")}
for shift, (epsilon, (colour, marker)) in zip((-0.2, 0.0, 0.2), looks.items(), strict=True):
    federation = Federation(in_process(held, noise=Replay(2)), protocol=Cape(n_colluding=1))
    model = LinearRegression(epsilon=epsilon, delta=1e-6, scale="private").fit(federation)
    places = np.arange(3) + shift
    # An infinite interval, where noise hides a coefficient, is drawn over the whole height.
    ax.vlines(places, *np.clip(model.interval_, -60, 60), color=colour, linewidth=2)
    ax.plot(places, model.coef_, marker, color=colour, label=f"epsilon {epsilon:g}")
ax.hlines(TRUTH, np.arange(3) - 0.3, np.arange(3) + 0.3, color="black", label="truth")
ax.set_ylim(-60, 60)
ax.axhline(0, color="0.7", linewidth=0.8)
ax.set_xticks(range(3), list(RANGES))
ax.set_ylabel("mmHg per half range")
ax.legend(frameon=False)
plt.show()
