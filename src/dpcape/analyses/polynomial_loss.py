"""Description of minimising a registered polynomial loss: all its coefficients in one release."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpcape.analyses.description import LAW, RADIUS, REGRESSIONS, Analysis, AuditCase, Noise, Public, Variant
from dpcape.analyses.footprint import rows_of_contributions
from dpcape.analyses.parameters import OTHER, CodeNames, Parameter, shown
from dpcape.analyses.regression import JOINT_DEGREES
from dpcape.analyses.release import Refusal, Release, Steps
from dpcape.core.errors import InvalidParameter
from dpcape.statistics.losses import own_losses
from dpcape.statistics.polynomials import LARGEST_SIZE, loss_numbers, polynomial_coefficients

POLYNOMIAL_LOSSES = "dpcape.losses"
_NOTE = (
    "Planned for the loss 'poisson' with counts from 0; the noise does not depend on the largest count. Plan your own "
    "losses in Python."
)


def _schedule(p: Public) -> Steps:
    if p.facts is None:
        # The planner page supports only the Poisson loss, with a numerical kernel of its own (measures.js).
        numbers = p.poisson_numbers
        remedy = "Use fewer features or a smaller degree."
        text = InvalidParameter("The loss", f"have between 1 and {LARGEST_SIZE} coefficients", "{size}", remedy)
        yield Refusal(numbers["size"] > LARGEST_SIZE, text, {"size": numbers["size"]})
        yield Release("polynomial_coefficients", {**numbers, "n_features": p.n_features, "degree": 4})
        return
    # Searches for two possible records that violate the diameter, and raises if it finds them.
    statistic = polynomial_coefficients(p.facts, loss=p.loss)
    yield Release(statistic.name, statistic.numbers, assumption=statistic.assumption)


def _noise(p: Public, scales: Sequence[float]) -> float:
    numbers = p.poisson_numbers if p.facts is None else loss_numbers(p.facts, loss=p.loss)
    return scales[0] * math.sqrt(numbers["size"]) / numbers["radius"]


def _refuse_loss(value: object, p: Public) -> None:
    if not isinstance(value, str):
        raise InvalidParameter("loss", "be the name of a registered loss", shown(value), "Try 'poisson'.")


POLYNOMIAL_LOSS = Analysis(
    name="polynomial_loss",
    estimator="dpcape.estimators.linear.polynomial_loss:PolynomialLoss",
    group=REGRESSIONS,
    place=3,
    kinds=frozenset({"rows", "labelled"}),
    records="labelled",
    labels="counts",
    parameters=(Parameter("loss", OTHER, refuse=_refuse_loss, code=CodeNames(POLYNOMIAL_LOSSES, own_losses)),),
    schedule=_schedule,
    workspace=rows_of_contributions,
    variants=(
        Variant(
            "polynomial-loss",
            "Poisson regression (polynomial loss)",
            fixed={"loss": "poisson"},
            yardstick=RADIUS,
            note=_NOTE,
        ),
    ),
    measure=Noise("length of the noise in the coefficients, against their bound", _noise),
    audit=(AuditCase("polynomial-loss", {"loss": "poisson"}, "counts", 3),),
    law=LAW,
    reason=f"{JOINT_DEGREES} (built-in losses)",
    reference="docs/analyses/regression.md#privacy",
)
