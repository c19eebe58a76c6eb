"""Cases of joint ICA; the form is explained in ``estimators_core.py``."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpcape import Cosines, JointICA, Template, subjects

SITES = ("ava", "bob", "cid", "dot")
_MIXING = np.array([[0.8, 0.1, 0.3], [0.2, 0.9, -0.3]])


def _subjects(unit: str) -> dict[str, Any]:
    generator = np.random.default_rng(12)
    return {
        site: subjects(
            [generator.laplace(size=(20, 2)) @ _MIXING for _ in range(30 + index)],
            bound=3.0,
            unit=unit,
            rows_per_subject=20,
            n_features=_MIXING.shape[1],
        )
        for index, site in enumerate(SITES)
    }


def _wide_subjects() -> dict[str, Any]:
    generator = np.random.default_rng(14)
    mixing = np.array([[0.8, 0.1, 0.3, 0.2], [0.2, 0.9, -0.3, 0.1]])
    return {
        site: subjects([generator.laplace(size=(1500 + index, 2)) @ mixing], bound=3.0, unit="record")
        for index, site in enumerate(SITES)
    }


CASES: dict[str, tuple[Any, Any, dict[str, float]]] = {
    "JointICA-record": (
        lambda e, d: JointICA(2, epsilon=e, delta=d),
        lambda: _subjects("record"),
        {"mixing_": 0.2},
    ),
    "JointICA-wide": (
        lambda e, d: JointICA(2, epsilon=e, delta=d, basis=Template(np.eye(3)), solver="infomax", n_iter=3),
        lambda: _subjects("record"),
        {},
    ),
    "JointICA-maps": (
        lambda e, d: JointICA(2, epsilon=e, delta=d, basis=Cosines(np.ones(4), [3]), maps=True),
        _wide_subjects,
        {"mixing_": 0.2},
    ),
    "JointICA-subject": (
        lambda e, d: JointICA(2, epsilon=e, delta=d, n_timepoints=20, insist=True),
        lambda: _subjects("subject"),
        {},
    ),
    "JointICA-infomax-record": (
        lambda e, d: JointICA(2, epsilon=e, delta=d, solver="infomax", n_iter=3),
        lambda: _subjects("record"),
        {},
    ),
    "JointICA-infomax-subject": (
        lambda e, d: JointICA(2, epsilon=e, delta=d, solver="infomax", n_iter=3, n_timepoints=20, insist=True),
        lambda: _subjects("subject"),
        {},
    ),
}
