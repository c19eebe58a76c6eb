"""
Images and behaviour: loadings beyond a public basis
====================================================

Three sites hold images of 40 x 40 pixels and four numbers per person. One pattern of the images goes along with one of
the numbers. Canonical correlations are computed in 100 public cosines; a second release adds what they leave out of
the pattern: stripes that no smooth basis contains.
"""

import matplotlib.pyplot as plt
import numpy as np

from dpcape import CCA, Cape, Cosines, Federation, Replay, in_process, views

shape = (40, 40)
x, y = np.meshgrid(np.linspace(-1, 1, 40), np.linspace(-1, 1, 40), indexing="ij")
blobs = [
    np.exp(-6 * ((x - a) ** 2 + (y - b) ** 2)) * (1 + np.sin(c * (x + 2 * y)))
    for a, b, c in ((-0.5, -0.3, 30), (0.4, 0.5, 36), (0.4, -0.5, 42))
]
maps = np.linalg.qr(np.stack([blob.ravel() for blob in blobs], axis=1))[0]
rng = np.random.default_rng(0)


def people(count):
    """Return images of three patterns, the second of which goes along with the first of four numbers."""
    scores, own = rng.normal(size=(count, 3)), rng.normal(size=(count, 4))
    own[:, 0] = 0.7 * scores[:, 1] + np.sqrt(1 - 0.7**2) * own[:, 0]
    images = scores * [0.5, 0.4, 0.3] @ maps.T + 0.01 * rng.normal(size=(count, 1600))
    return views(images, own / 2, bounds=(1.0, 1.0))


held = {name: people(3000) for name in ("lima", "lyon", "oslo")}
federation = Federation(in_process(held, noise=Replay(2)), protocol=Cape(n_colluding=1))
basis = (Cosines(np.ones(shape, dtype=bool), (10, 10)), None)
alone = CCA(1, epsilon=2.0, delta=1e-6, basis=basis).fit(federation)
both = CCA(1, epsilon=2.0, delta=1e-6, basis=basis, maps=True).fit(federation)
print(f"correlation: {both.correlations_[0]:.2f} (true 0.70), p = {both.p_values_[0]:.3f}")

# %%
# The pattern, its loadings in the basis alone, and with maps; both at the same guarantee.

true = 0.4 * maps[:, 1]
found = {"truth": true, "100 cosines": alone.x_loadings_[:, 0], "with maps": both.x_loadings_[:, 0]}
fig, axes = plt.subplots(1, 3, figsize=(7.2, 2.7))
for axis, (name, image) in zip(axes, found.items(), strict=True):
    image = image * np.sign(image @ true)
    axis.imshow(image.reshape(shape), cmap="PuOr_r", vmin=-0.05, vmax=0.05)
    axis.set(title=name, xticks=[], yticks=[])
plt.show()

# %%
# How much of the true loadings each explains.

for name, image in found.items():
    print(f"{name}: {(image @ true) ** 2 / (image @ image) / (true @ true):.3f}")
