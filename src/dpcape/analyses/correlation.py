"""Description of the matrix of correlations."""

from __future__ import annotations

from dpcape.analyses.cca import centred_moments_of_views
from dpcape.analyses.description import COMPONENTS, VERIFIED, Analysis, AuditCase, Public, Variant
from dpcape.analyses.mean import CONFIDENCE
from dpcape.analyses.parameters import CHOICE, Parameter
from dpcape.analyses.pca import ANALYZE_GAUSS
from dpcape.analyses.release import Steps


def _schedule(p: Public) -> Steps:
    yield from centred_moments_of_views(p)


CORRELATION = Analysis(
    name="correlation",
    estimator="dpcape.estimators.correlation:Correlation",
    group=COMPONENTS,
    place=2,
    kinds=frozenset({"rows", "labelled", "views", "subjects"}),
    records="rows",
    parameters=(CONFIDENCE, Parameter("scale", CHOICE, "private", words=("private", "none"))),
    schedule=_schedule,
    variants=(
        Variant("correlation", "Correlations", fixed={"scale": "private"}),
        Variant("correlation-as-given", "Correlations of columns as given", fixed={"scale": "none"}),
    ),
    measure="noise_of_correlations",
    sections=("correlation_matrix",),
    results=("correlation_matrix",),
    audit=(
        AuditCase("correlation", {}, "rows", 3),
        AuditCase("correlation-as-given", {"scale": "none"}, "rows", 3),
    ),
    standing=VERIFIED,
    reason="mean, scale and radius first, then mean and second moment of the standardised rows jointly",
    reference=ANALYZE_GAUSS,
)
