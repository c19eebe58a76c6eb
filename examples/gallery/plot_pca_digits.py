"""
Principal components of handwritten digits
==========================================

Four sites with a quarter of scikit-learn's digits each, epsilon 3, one site may collude.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from dpcape import PCA, Cape, Exact, Federation, Replay, in_process, rows

# %%
# Pixels are counts from 0 to 16 by the data set's documentation, so dividing by 16 and the bound are public choices.

pixels = load_digits().data / 16
names = ("lima", "lyon", "oslo", "rome")
held = {name: rows(pixels[start::4], bound=4.0) for start, name in enumerate(names)}
federation = Federation(in_process(held, noise=Replay(3)), protocol=Cape(n_colluding=1))
private = PCA(n_components=6, epsilon=3.0, delta=1e-5).fit(federation)
exact = PCA(n_components=6, epsilon=3.0, delta=1e-5).fit(Federation(in_process(held), protocol=Exact()))

# %%
# Components without privacy above, private ones below. Weak components drown first.

fig, axes = plt.subplots(2, 6, figsize=(7.2, 2.8))
for row, model in zip(axes, (exact, private), strict=True):
    for ax, component in zip(row, model.components_, strict=True):
        limit = np.abs(component).max()
        ax.imshow(component.reshape(8, 8), cmap="PuOr", vmin=-limit, vmax=limit)
        ax.set_axis_off()
plt.show()

# %%
# Eigenvalues against the noise: above the dashed line a component stands out.

private.plot_scree()
plt.show()

# %%
# What may be claimed. This run used ``Replay``, and the sentence says so first.

print(private.guarantee_)
