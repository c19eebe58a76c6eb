"""
How many colluding sites to plan for
====================================

Each site that may tell the aggregator what it knows costs some accuracy. Planning for too few costs protection.
"""

import matplotlib.pyplot as plt
import numpy as np

from dpcape import PCA, Cape, Federation, Replay, in_process, rows
from dpcape.planning.consortium import Consortium
from dpcape.planning.study_plan import equal_sites, plan_of

# %%
# Noise of the result, relative to pooled data, for ten sites: sqrt(n / (n - c)) up to half a percent.

colluding = np.arange(9)
consortia = [Consortium(equal_sites(10_000, 10), Cape(n_colluding=int(c)), epsilon=1.0, delta=1e-5) for c in colluding]
ratios = [plan_of("pca", [20], [1.0], consortium)["noise_ratio"] for consortium in consortia]
fig, ax = plt.subplots()
ax.plot(colluding, ratios, "o-", color="#009E73", label="CAPE, 10 sites")
ax.axhline(np.sqrt(10), color="#D55E00", linestyle="--", label="each site for itself")
ax.axhline(1, color="#0072B2", linestyle=":", label="pooled data")
ax.set_xlabel("colluding sites planned for")
ax.set_ylabel("noise relative to pooled data")
ax.legend(frameon=False)
plt.show()

# %%
# What is left when more sites collude than planned: epsilon against the aggregator and 0 to 4 other sites, five sites.

X = np.random.default_rng(0).normal(size=(5000, 5)) / 4
held = {f"site {index + 1}": rows(part, bound=1.0) for index, part in enumerate(np.split(X, 5))}
fig, ax = plt.subplots()
for planned, style in zip((0, 1, 3), ("o:", "s--", "^-"), strict=True):
    federation = Federation(in_process(held, noise=Replay(1)), protocol=Cape(n_colluding=planned))
    guarantee = PCA(n_components=1, epsilon=1.0, delta=1e-5).fit(federation).guarantee_
    ax.plot(range(5), guarantee.by_colluders, style, color="#009E73", label=f"planned for {planned}")
ax.set_xticks(range(5))
ax.set_xlabel("sites that collude with the aggregator")
ax.set_ylabel("epsilon at delta 1e-5")
ax.legend(frameon=False)
plt.show()
