"""Class labels at the user's side: sites speak of classes by name."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpcape.errors import InvalidParameter


def codes_of(y: ArrayLike, classes: NDArray[Any]) -> NDArray[np.intp]:
    """Return the position of each label in ``classes``, whose entries are the labels' texts."""
    positions = {str(label): position for position, label in enumerate(classes)}
    labels = [str(label) for label in np.asarray(y).ravel().tolist()]
    unknown = sorted(set(labels) - set(positions))
    if unknown:
        raise InvalidParameter(
            f"labels must be among the fitted classes {list(positions)}; got {unknown[0]!r}. "
            "Use the labels given to labelled(..., classes=[...])."
        )
    return np.array([positions[label] for label in labels], dtype=np.intp)


def accuracy_of(predicted: NDArray[Any], y: ArrayLike, classes: NDArray[Any]) -> float:
    """Return the share of labels that are predicted."""
    return float(np.mean(codes_of(predicted, classes) == codes_of(y, classes)))
