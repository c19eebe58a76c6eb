"""
Maps of simulated fMRI
======================

Three sites, 60 people, one *time point* protected. Protecting a person needs many more people.
"""

import matplotlib.pyplot as plt
import numpy as np

from dpcape import Cape, Federation, JointICA, Replay, in_process, subjects
from dpcape.datasets import simulated_fmri
from dpcape.estimators.ica import cosine_basis
from dpcape.metrics import matched_correlations

simulation = simulated_fmri(np.random.default_rng(0), n_subjects=60, n_components=4, shape=(12, 12), n_timepoints=150)
held = {
    name: subjects(simulation.arrays[start::3], bound=4.0, unit="record")
    for start, name in enumerate(("lima", "lyon", "oslo"))
}
federation = Federation(in_process(held, noise=Replay(4)), protocol=Cape(n_colluding=1))
model = JointICA(4, epsilon=2.0, delta=1e-5, basis=cosine_basis(simulation.shape, (8, 8))).fit(federation)

# %%
# True maps above, found maps below, in the order in which they match.

truth, found = simulation.mixing, model.mixing_
correlations = np.corrcoef(truth.T, found.T)[:4, 4:]
order = np.abs(correlations).argmax(axis=1)
fig, axes = plt.subplots(2, 4, figsize=(7.2, 3.8))
for column in range(4):
    sign = np.sign(correlations[column, order[column]])
    for row, image in enumerate((truth[:, column], sign * found[:, order[column]])):
        limit = np.abs(image).max()
        axes[row, column].imshow(image.reshape(simulation.shape), cmap="PuOr_r", vmin=-limit, vmax=limit)
        axes[row, column].set_axis_off()
plt.show()

# %%
# How well they match, and what is guaranteed: per time point, not per person.

print(matched_correlations(found, truth).round(3))
print(model.guarantee_.owner_note)
