"""Interface of estimators, as plans and audits use them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from dpcape.analyses.description import Analysis, Public
    from dpcape.federation.federation import Federation
    from dpcape.guarantee.guarantee import Guarantee


class Estimator(Protocol):
    """Estimator that is fitted to a federation, such as :class:`dpcape.PCA`.

    Attributes
    ----------
    analysis : Analysis or None
        Description of its analysis, if there is one.
    epsilon : float or mapping
        Privacy parameter epsilon, for all sites or per site.
    delta : float or mapping
        Privacy parameter delta, for all sites or per site.
    guarantee_ : Guarantee
        Guarantee of the fitted model.
    """

    @property
    def analysis(self) -> Analysis | None: ...

    epsilon: float | Mapping[str, float]
    delta: float | Mapping[str, float]
    guarantee_: Guarantee

    def fit(self, federation: Federation) -> Self:
        """Fit the model to the records of all sites."""
        ...

    def get_params(self, deep: bool = True) -> Mapping[str, object]:
        """Return the parameters by name."""
        ...

    def stated(self) -> tuple[str, ...]:
        """Return what the guarantee rests on because the class is not part of dpcape."""
        ...

    def public(self, federation: Federation) -> Public:
        """Return the public numbers that determine the releases."""
        ...
