"""What analyses share that subtract from every row the mean of its site."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpcape.core.arrays import AnyArray, FloatArray
from dpcape.core.errors import InvalidParameter
from dpcape.estimators.estimator import FederatedEstimator
from dpcape.estimators.scaling import scaled
from dpcape.federation.allowance import Allowance
from dpcape.federation.federation import Federation
from dpcape.postprocessing.scaling import Scaling
from dpcape.postprocessing.site_centring import WithinSites, within_sites


class SiteAdjusted(FederatedEstimator):
    """Base class of estimators with the parameter ``adjust``."""

    adjust: str | None = None
    sites_: AnyArray
    site_means_: FloatArray

    def _shares(self, federation: Federation) -> Sequence[float]:
        if self.adjust is not None and federation.weights:
            raise InvalidParameter(
                f"weights of sites must be left out where {type(self).__name__} adjusts for sites, which counts every "
                f"record once; got weights of {len(federation.weights)} sites. Remove them."
            )
        return super()._shares(federation)

    def _released_within(
        self, federation: Federation, private: Allowance, scaling: Scaling | None, bound: float
    ) -> WithinSites:
        """Release the moments by site of rows at most ``bound`` long, and return those within sites."""
        names = sorted(federation.sites)
        moments = private.mean(scaled(federation.facts, scaling, "site_centred_moments", n_sites=len(names)))
        release, divisor = private.releases[-1], private.counted.divisor
        sizes = np.array([federation.sites[name] if name in release.survivors else 0 for name in names], dtype=float)
        self.sites_ = np.array(names, dtype=np.str_)
        return within_sites(
            moments, sizes=sizes / sizes.sum(), scale=release.scale / divisor, divisor=divisor, bound=bound
        )

    def _centre_of(self, site: str | None, mean: FloatArray) -> FloatArray:
        """Return what is subtracted from the rows of a site; the mean of all rows if none is named."""
        if site is None:
            return mean
        if self.adjust is None or not hasattr(self, "sites_"):
            raise InvalidParameter("site must be left out where the model was not adjusted for sites; got a name.")
        if site not in self.sites_:
            raise InvalidParameter(f"site must be one of {', '.join(self.sites_)}; got {site!r}. Leave it out.")
        return np.asarray(self.site_means_[int(np.flatnonzero(self.sites_ == site)[0])])
