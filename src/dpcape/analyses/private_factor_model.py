"""Description of the Bayesian factor model of a private second moment (``dpcape.factor_release``)."""

from __future__ import annotations

from dpcape.analyses.description import COMPONENTS, LAW, Analysis, AuditCase, Public
from dpcape.analyses.parameters import CHOICE, WHOLE, Parameter
from dpcape.analyses.pca import ANALYZE_GAUSS, ONE_MOMENT
from dpcape.analyses.release import Refusal, Release, Steps

# Most features for which the Markov chain runs in reasonable time and memory.
LARGEST_WIDTH = 1000


def _schedule(p: Public) -> Steps:
    wide = (
        "A private second moment must have at most {most} features; got {n_features}. "
        "Reduce them first by a public method, such as averaging over the regions of an atlas."
    )
    yield Refusal(p.n_features > LARGEST_WIDTH, wide, {"most": LARGEST_WIDTH, "n_features": p.n_features})
    few = (
        "Records must number more than twice the features; got {n_records} records and {n_features} features. "
        "Reduce the features first by a public method."
    )
    numbers = {"n_records": p.n_records, "n_features": p.n_features}
    yield Refusal(p.n_records <= 2 * p.n_features, few, numbers)
    yield Release("second_moment", {"n_features": p.n_features, "bound": p.bound, "single": p.single})


PRIVATE_FACTOR_MODEL = Analysis(
    name="private_factor_model",
    estimator="dpcape.factor_release:PrivateFactorModel",
    group=COMPONENTS,
    kinds=frozenset({"rows", "labelled", "views", "subjects"}),
    records="rows",
    parameters=(
        Parameter("n_factors", WHOLE, least=1, most=lambda p: p.n_features, words=("auto",)),
        Parameter("n_burn_in", WHOLE, 300, 0, 10**9),
        Parameter("n_draws", WHOLE, 300, 1, 10**9),
        Parameter("random_state", WHOLE, 0, 0, 2**63, old="seed"),
        Parameter("kernel", CHOICE, "auto", words=("auto", "numba", "lapack")),
    ),
    schedule=_schedule,
    audit=(
        AuditCase(
            "private-factor-model", {"n_factors": 1, "n_burn_in": 2, "n_draws": 2, "kernel": "lapack"}, "rows", 3
        ),
    ),
    law=LAW,
    reason=ONE_MOMENT,
    reference=f"docs/analyses/pca.md#privacy; {ANALYZE_GAUSS}",
    in_studies=False,
)
