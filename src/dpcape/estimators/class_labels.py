"""Labels and responses of new data, checked before scoring; sites identify classes by name."""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpcape.core.arrays import AnyArray, FloatArray
from dpcape.core.errors import InvalidParameter
from dpcape.core.facts import PublicFacts


def classes_of(facts: PublicFacts) -> AnyArray:
    """Return the public classes as the labels are at the sites: text, integers, numbers or Booleans."""
    texts = facts.classes or ()
    if facts.labels_are is msgspec.UNSET:
        return np.array(texts)
    if facts.labels_are == "booleans":
        return np.array([text == "True" for text in texts])
    return np.array([int(text) if facts.labels_are == "integers" else float(text) for text in texts])


def codes_of(y: ArrayLike, classes: AnyArray) -> NDArray[np.intp]:
    """Return the position in ``classes`` of each label; text is compared as text, numbers by their value."""
    is_text = classes.dtype.kind == "U"
    positions = {_key(label, is_text): position for position, label in enumerate(classes.tolist())}
    labels = [_key(label, is_text) for label in np.asarray(y).ravel().tolist()]
    unknown = sorted(set(labels) - set(positions), key=str)
    if unknown:
        remedy = "Use the labels given to labelled(..., classes=[...])."
        raise InvalidParameter("Labels", f"be among the fitted classes {classes.tolist()}", repr(unknown[0]), remedy)
    return np.array([positions[label] for label in labels], dtype=np.intp)


def _key(label: object, is_text: bool) -> str | float:
    """Return a label as it is compared: as text if classes are text, else as a number, or as text if it is not one."""
    if is_text:
        return str(label)
    try:
        return float(label == "True") if label in ("True", "False") else float(label)  # type: ignore[arg-type]  # tried
    except (TypeError, ValueError):
        return str(label)


def accuracy_of(predicted: AnyArray, y: ArrayLike, classes: AnyArray) -> float:
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
        remedy = "Leave out rows without a response."
        raise InvalidParameter("y", "contain finite numbers", "text, NaN or infinity", remedy)
    return responses


def _check_count(n_given: int, n_rows: int) -> None:
    if n_given != n_rows:
        raise InvalidParameter("y", f"have one entry per row ({n_rows})", n_given, "Pass the y that belongs to X.")
