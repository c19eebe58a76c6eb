"""
Components of images, beyond a public basis
===========================================

Three sites hold images of 40 x 40 pixels. The private PCA uses 100 public cosines; a second release adds what they
leave out: stripes that no smooth basis contains.
"""

import matplotlib.pyplot as plt
import numpy as np

from dpcape import PCA, Cape, Cosines, Federation, Replay, in_process, rows

shape = (40, 40)
x, y = np.meshgrid(np.linspace(-1, 1, 40), np.linspace(-1, 1, 40), indexing="ij")
blobs = [
    np.exp(-6 * ((x - a) ** 2 + (y - b) ** 2)) * (1 + np.sin(c * (x + 2 * y)))
    for a, b, c in ((-0.5, -0.3, 30), (0.4, 0.5, 36), (0.4, -0.5, 42))
]
maps = np.linalg.qr(np.stack([blob.ravel() for blob in blobs], axis=1))[0]
rng = np.random.default_rng(0)
held = {
    name: rows(rng.normal(size=(3000, 3)) * [0.5, 0.4, 0.3] @ maps.T + 0.01 * rng.normal(size=(3000, 1600)), bound=1.0)
    for name in ("lima", "lyon", "oslo")
}
federation = Federation(in_process(held, noise=Replay(2)), protocol=Cape(n_colluding=1))
basis = Cosines(np.ones(shape, dtype=bool), (10, 10))
models = {
    "truth": maps.T,
    "100 cosines": PCA(3, epsilon=2.0, delta=1e-6, basis=basis).fit(federation).components_,
    "with maps": PCA(3, epsilon=2.0, delta=1e-6, basis=basis, maps=True).fit(federation).components_,
}

# %%
# Rows: the truth, the basis alone, and with maps; both at the same guarantee.

fig, axes = plt.subplots(3, 3, figsize=(6.4, 6.6))
for row, (name, found) in zip(axes, models.items(), strict=True):
    for axis, image, true in zip(row, found, maps.T, strict=True):
        image = image * np.sign(image @ true)
        limit = np.abs(image).max()
        axis.imshow(image.reshape(shape), cmap="PuOr_r", vmin=-limit, vmax=limit)
        axis.set(xticks=[], yticks=[])
    row[0].set_ylabel(name)
plt.show()

# %%
# How much of the variation each captures, as a share of the best possible.

energy = np.array([0.25, 0.16, 0.09])
for name, found in models.items():
    print(f"{name}: {((found @ maps) ** 2 * energy).sum() / energy.sum():.3f}")
