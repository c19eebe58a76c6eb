"""
Partial least squares of images and scores
==========================================

Three centres relate brain regions to test scores: pairs of directions of greatest covariance, one in each view.
"""

import matplotlib.pyplot as plt
import numpy as np

from dpcape import PLS, Cape, Federation, in_process, views

# %%
# The records
# -----------
# Twelve regions and five scores share one factor.

regions, scores = np.sin(np.arange(12) / 2), np.array([1.0, 0.6, 0.0, 0.0, -0.5])


def centre(n_people, seed):
    """Return simulated people."""
    source = np.random.default_rng(seed)
    factor = source.normal(size=(n_people, 1))
    x = factor * regions + source.normal(size=(n_people, 12))
    y = factor * scores + source.normal(size=(n_people, 5))
    return views(x, y, bounds=(5.0, 3.5))


sizes = {"lyon": 900, "oslo": 700, "lima": 1400}
sites = in_process({name: centre(size, seed) for seed, (name, size) in enumerate(sizes.items())})
model = PLS("auto", epsilon=1.0, delta=1e-6).fit(Federation(sites, protocol=Cape(n_colluding=1)))
print(*model.verdicts_, sep="\n")
model.plot_covariances()
plt.show()

# %%
# The first pair of directions
# ----------------------------

fig, axes = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
for ax, found, true, name in zip(
    axes, (model.x_weights_, model.y_weights_), (regions, scores), ("regions", "scores"), strict=True
):
    sign = np.sign(found[:, 0] @ true)
    ax.bar(range(len(true)), sign * found[:, 0], label="found")
    ax.plot(range(len(true)), true / np.linalg.norm(true), "o", color="black", label="simulated")
    ax.set_xlabel(name)
axes[0].set_ylabel("weight")
axes[0].legend(frameon=False)
plt.show()
