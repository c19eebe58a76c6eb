"""
A guarantee as a test: hits against false alarms
================================================

Suppose an adversary tests whether a certain record is in the data. The guarantee bounds every such test: at each
rate of false alarms it bounds the rate of hits.
"""

import matplotlib.pyplot as plt
import numpy as np

from dpcape.core.privacy import mu_of
from dpcape.core.privacy.inference import most_hits

DELTA = 1e-5
false_alarms = np.linspace(0, 1, 201)

# %%
# The diagonal is a test that knows nothing. A curve far above it means that one record can be found out.

fig, ax = plt.subplots(figsize=(5.4, 5.0))
looks = {0.1: ("#0072B2", "-"), 1.0: ("#E69F00", "--"), 3.0: ("#D55E00", "-."), 10.0: ("#000000", "-")}
for epsilon, (colour, style) in looks.items():
    mu = mu_of(epsilon, DELTA)
    hits = [most_hits(rate, epsilon=epsilon, delta=DELTA, mu=mu) for rate in false_alarms]
    ax.plot(false_alarms, hits, color=colour, linestyle=style, label=f"epsilon {epsilon:g}")
ax.plot([0, 1], [0, 1], color="0.5", linestyle=":", label="knows nothing")
ax.set_xlabel("false alarms")
ax.set_ylabel("hits, at most")
ax.legend(loc="lower right", frameon=False)
ax.set_aspect("equal")
plt.show()

# %%
# The pair (epsilon, delta) alone says less than the Gaussian noise behind it gives. At epsilon 3 and 5% false alarms
# the pair, read in both directions, allows 95% hits; the noise allows 18%.

rates = np.linspace(0.001, 0.2, 60)
mu = mu_of(3.0, DELTA)
fig, ax = plt.subplots()
ax.plot(rates, [most_hits(rate, epsilon=3.0, delta=DELTA) for rate in rates], color="0.5", label="by the pair alone")
ax.plot(
    rates, [most_hits(rate, epsilon=3.0, delta=DELTA, mu=mu) for rate in rates], color="#b45309", label="by its noise"
)
ax.set_xlabel("false alarms")
ax.set_ylabel("hits, at most")
ax.set_title("epsilon 3, delta 1e-5")
ax.legend(frameon=False)
plt.show()
