"""Description of the Bayesian factor model of a private second moment (``dpcape.factor_release``)."""

from __future__ import annotations

from dpcape.analyses.description import COMPONENTS, LAW, Analysis, AuditCase, Public
from dpcape.analyses.parameters import CHOICE, WHOLE, Parameter
from dpcape.analyses.pca import ANALYZE_GAUSS, ONE_MOMENT
from dpcape.analyses.release import Refusal, Release, Steps
from dpcape.core.errors import InvalidParameter

# Most features for which the Markov chain runs in reasonable time and memory.
LARGEST_WIDTH = 1000


def _schedule(p: Public) -> Steps:
    remedy = "Reduce them first by a public method, such as averaging over the regions of an atlas."
    wide = InvalidParameter("A private second moment", "have at most {most} features", "{n_features}", remedy)
    yield Refusal(p.n_features > LARGEST_WIDTH, wide, {"most": LARGEST_WIDTH, "n_features": p.n_features})
    must, remedy = "number more than twice the features", "Reduce the features first by a public method."
    few = InvalidParameter("Records", must, "{n_records} records and {n_features} features", remedy)
    numbers = {"n_records": p.n_records, "n_features": p.n_features}
    yield Refusal(p.n_records <= 2 * p.n_features, few, numbers)
    yield Release("second_moment", {"n_features": p.n_features, "bound": p.bound})


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
        Parameter("random_state", WHOLE, 0, 0, 2**63),
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
