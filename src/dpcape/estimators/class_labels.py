"""Labels and responses of new data, checked before scoring; sites identify classes by name."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpcape.arrays import FloatArray
from dpcape.errors import InvalidParameter


def codes_of(y: ArrayLike, classes: NDArray[np.str_]) -> NDArray[np.intp]:
    """Return the position in ``classes`` of each label, compared as text."""
    positions = {str(label): position for position, label in enumerate(classes)}
    labels = [str(label) for label in np.asarray(y).ravel().tolist()]
    unknown = sorted(set(labels) - set(positions))
    if unknown:
        raise InvalidParameter(
            f"Labels must be among the fitted classes {list(positions)}; got {unknown[0]!r}. "
            "Use the labels given to labelled(..., classes=[...])."
        )
    return np.array([positions[label] for label in labels], dtype=np.intp)


def accuracy_of(predicted: NDArray[np.str_], y: ArrayLike, classes: NDArray[np.str_]) -> float:
    """Return the share of correctly predicted labels."""
    truth = codes_of(y, classes)
    _check_count(len(truth), len(predicted))
    return float(np.mean(codes_of(predicted, classes) == truth))


def checked_responses(y: ArrayLike, n_rows: int) -> FloatArray:
    """Return responses as finite numbers, one per row."""
    try:
        responses = np.asarray(y, dtype=np.float64).ravel()
    except (TypeError, ValueError):
        responses = np.full(n_rows, np.nan)
    _check_count(len(responses), n_rows)
    if not np.isfinite(responses).all():
        raise InvalidParameter(
            "y must contain finite numbers; got text, NaN or infinity. Leave out rows without a response."
        )
    return responses


def _check_count(n_given: int, n_rows: int) -> None:
    if n_given != n_rows:
        raise InvalidParameter(
            f"y must have one entry per row ({n_rows}); got {n_given}. Pass the y that belongs to X."
        )
