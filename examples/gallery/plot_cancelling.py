"""
Large at each site, small in the sum
====================================

Under CAPE every site sends its total under large noise. Most of it cancels when the totals are added. The same mean is
released here many times, only to see the noise; in earnest each time would be charged.
"""

import matplotlib.pyplot as plt
import numpy as np

from dpcape import Cape, Federation, Independent, Mean, Replay, in_process, rows
from dpcape.planning.consortium import Consortium
from dpcape.planning.study_plan import equal_sites, plan_of

# %%
# What is planned
# ---------------
# Four sites of 1,000 records each. ``plan_of`` computes all scales from public numbers.

sizes = equal_sites(4000, 4)
cape = plan_of("mean", [1], [1.0], Consortium(sizes, Cape(n_colluding=1), epsilon=1.0, delta=1e-5))
alone = plan_of("mean", [1], [1.0], Consortium(sizes, Independent(), epsilon=1.0, delta=1e-5))

names = ["a site sends,\nCAPE", "a site sends,\neach for itself", "result,\neach for itself", "result,\nCAPE"]
scales = [
    float(np.hypot(cape["own_scale"], cape["shared_scale"])),
    alone["own_scale"],
    alone["aggregate_scale"],
    cape["aggregate_scale"],
]
fig, ax = plt.subplots()
colours = {"CAPE": "#009E73", "each for itself": "#D55E00"}
bars = ax.bar(names, scales, color=[colours[name.split("\n")[1]] for name in names])
ax.axhline(cape["pooled_scale"], color="#0072B2", linestyle=":", label="what pooled data would need")
ax.legend(frameon=False)
ax.set_yscale("log")
ax.set_ylabel("standard deviation of the noise")
ax.bar_label(bars, fmt="%.2g")
plt.show()

# %%
# What happens
# ------------
# The mean of 4,000 records, released 60 times with either protocol. Both have the same guarantee.

rng = np.random.default_rng(0)
data = np.split(rng.uniform(-0.4, 0.8, size=(4000, 1)), 4)


def released(protocol, seed):
    held = {name: rows(part, bound=1.0) for name, part in zip(("lima", "lyon", "oslo", "rome"), data, strict=True)}
    federation = Federation(in_process(held, noise=Replay(seed)), protocol=protocol)
    return Mean(epsilon=1.0, delta=1e-5).fit(federation).mean_[0]


results = {
    "each for itself": [released(Independent(), seed) for seed in range(60)],
    "CAPE": [released(Cape(n_colluding=1), seed) for seed in range(60)],
}
fig, ax = plt.subplots(figsize=(6.4, 2.6), layout="constrained")
for height, (name, values) in enumerate(results.items()):
    ax.plot(values, height + rng.uniform(-0.12, 0.12, len(values)), "o", alpha=0.5, color=colours[name])
ax.axvline(np.mean(np.concatenate(data)), color="0.3", linewidth=1, label="without noise")
ax.legend(frameon=False)
ax.set_yticks([0, 1], list(results))
ax.set_ylim(-0.5, 1.5)
ax.set_xlabel("released mean")
plt.show()
