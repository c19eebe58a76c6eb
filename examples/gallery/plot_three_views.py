"""
What three views have in common
===============================

Three hospitals hold images, blood values and questionnaires of the same patients. ``MultiCCA`` finds what these views
share, from one release.
"""

import matplotlib.pyplot as plt
import numpy as np

from dpcape import Cape, Federation, MultiCCA, in_process, views

# %%
# The records
# -----------
# One factor shows in all three views, another one only in images and blood values.


def hospital(n_patients, seed):
    """Return simulated patients: five columns in each view."""
    source = np.random.default_rng(seed)
    illness, age = source.normal(size=(2, n_patients, 1))
    images, blood, answers = source.normal(size=(3, n_patients, 5))
    images += illness * [2, 1, 0, 0, 0] + age * [0, 0, 0, 2, 1]
    blood += illness * [0, 2, 1, 0, 0] + age * [0, 0, 0, 0, 2]
    answers += illness * [2, 0, 0, 1, 0]
    return views(images, blood, answers, bounds=(4.0, 4.0, 4.0))


sizes = {"lyon": 2000, "oslo": 1500, "lima": 2500}
sites = in_process({name: hospital(size, seed) for seed, (name, size) in enumerate(sizes.items())})
model = MultiCCA("auto", epsilon=1.0, delta=1e-6).fit(Federation(sites, protocol=Cape(n_colluding=1)))
print(*model.verdicts_, sep="\n")

# %%
# Which views share a component
# -----------------------------
# A pair of views whose correlation is above ``pair_noise_level_`` is related.

names = ["images", "blood", "answers"]
fig, axes = plt.subplots(1, len(model.correlations_), squeeze=False, figsize=(4 * len(model.correlations_), 3.5))
for component, ax in enumerate(axes[0]):
    ax.imshow(model.pair_correlations_[component], cmap="RdBu_r", vmin=-1, vmax=1)
    ax.set_xticks(range(3), names)
    ax.set_yticks(range(3), names)
    ax.set_title(f"component {component + 1}; noise reaches {model.pair_noise_level_:.2f}", fontsize=9)
    for first, second in np.ndindex(3, 3):
        ax.text(second, first, f"{model.pair_correlations_[component, first, second]:.2f}", ha="center", va="center")
plt.show()
