"""Released columns of a person that an adversary may know."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcape.core.arrays import FloatArray
from dpcape.factor_release import evidence
from dpcape.factor_release.evidence import UNKNOWN, Codes
from dpcape.factor_release.released_parts import ReleasedParts

Rows = NDArray[np.intp]

MOST_SINGLE = 6  # covariates that are also looked at one by one


@dataclass(frozen=True)
class Knowledge:
    """What an adversary knows of a target besides features, in words and as codes of all people."""

    words: str
    columns: tuple[Codes, ...]
    uses_response: bool

    def table(self, targets: Rows, rows: Rows) -> FloatArray:
        """Compare targets with rows over all columns, or over those that are never missing where one is."""
        joint = evidence.joined([*self.columns])
        full = evidence.matching(joint[targets], joint[rows])
        complete = [codes for codes in self.columns if not np.any(codes == UNKNOWN)]
        if not complete or len(complete) == len(self.columns):
            return full
        joint_of_complete = evidence.joined(complete)
        silent = (joint[targets] == UNKNOWN)[:, None] | (joint[rows] == UNKNOWN)[None, :]
        return np.where(silent, evidence.matching(joint_of_complete[targets], joint_of_complete[rows]), full)

    @property
    def short(self) -> str:
        """The known columns without their owner."""
        return self.words.removeprefix("the person's ")

    @property
    def complete(self) -> Rows:
        """People for whom every column is released."""
        return np.flatnonzero(np.all([codes != UNKNOWN for codes in self.columns], axis=0))


def plural(count: int) -> str:
    """Return the word for this number of covariates."""
    return "covariate" if count == 1 else "covariates"


def knowledge_of(parts: ReleasedParts, *, rough: bool) -> list[Knowledge]:
    """Return the sets of released columns an adversary may know: covariates, response, both."""
    code = evidence.roughly if rough else evidence.as_released
    how = "roughly" if rough else "as released"
    q = parts.covariates.shape[1]
    covariates = tuple(code(column) for column in parts.covariates.T)
    known = [Knowledge(f"the person's {plural(q)} {how}", covariates, False)] if q else []
    if parts.response is not None:
        response = code(parts.response)
        known.append(Knowledge(f"the person's response {how}", (response,), True))
        if q:
            known.append(Knowledge(f"the person's {plural(q)} and response {how}", (*covariates, response), True))
    return known


def single_covariates(parts: ReleasedParts) -> list[Knowledge]:
    """Return each covariate by itself, as released."""
    q = parts.covariates.shape[1]
    chosen = range(min(q, MOST_SINGLE) if q > 1 else 0)
    return [
        Knowledge(f"the person's covariate {c + 1} as released", (evidence.as_released(parts.covariates[:, c]),), False)
        for c in chosen
    ]
