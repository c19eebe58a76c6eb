"""A PyTorch module of your own, trained across three sites; needs the extra torch."""

from __future__ import annotations

import numpy as np
from torch import nn

from dpcape import Cape, Federation, Replay, TorchClassifier, in_process, labelled
from dpcape.statistics import known_module


@known_module("small convolution")
def small_convolution(n_features: int, n_classes: int) -> nn.Module:
    side = round(n_features**0.5)
    n_places = (side - 3) // 2 + 1
    return nn.Sequential(
        nn.Unflatten(1, (1, side, side)),
        nn.Conv2d(1, 4, 3, stride=2),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(4 * n_places**2, n_classes),
    )


def bars(n_records: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return 8 x 8 images of an upright or a lying bar."""
    generator = np.random.default_rng(seed)
    images, labels = 0.05 * generator.standard_normal((n_records, 8, 8)), generator.integers(0, 2, n_records)
    for image, label, place in zip(images, labels, generator.integers(1, 7, n_records), strict=True):
        image[(slice(None), place) if label else (place, slice(None))] += 0.5
    return images.reshape(n_records, 64), labels


def main() -> None:
    images, labels = bars(3000, 0)
    sites = {
        name: labelled(images[k::3], labels[k::3], bound=2.0, classes=[0, 1])
        for k, name in enumerate(("lyon", "oslo", "lima"))
    }
    # Replay makes the example repeatable, and its result says that it protects nobody; leave it out in earnest.
    federation = Federation(in_process(sites, noise=Replay(1)), protocol=Cape(n_colluding=1))
    model = TorchClassifier("small convolution", epsilon=4.0, delta=1e-6, n_iter=30).fit(federation)
    print("accuracy", round(model.score(*bars(500, 1)), 2))
    print(model.guarantee_)
    print(model.to_torch())


if __name__ == "__main__":
    main()
