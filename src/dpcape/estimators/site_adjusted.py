"""What analyses of moments share: which mean is subtracted from every row, if any, and what follows from that."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dpcape.core.arrays import AnyArray, FloatArray
from dpcape.core.errors import InvalidParameter
from dpcape.estimators.estimator import FederatedEstimator, refuse_weights
from dpcape.estimators.scaling import scaled
from dpcape.federation.allowance import Allowance
from dpcape.federation.federation import Federation
from dpcape.postprocessing.eigen import top_values
from dpcape.postprocessing.scaling import Scaling
from dpcape.postprocessing.site_centring import WithinSites, within_sites
from dpcape.postprocessing.verdicts import DETERMINED

# Second moments mix the mean with the variation, and so do verdicts on them.
_ONLY_IF = "only if the mean is zero"


class SiteAdjusted(FederatedEstimator):
    """Base class of estimators with the parameters ``center`` and ``adjust``."""

    adjust: str | None = None
    sites_: AnyArray
    site_means_: FloatArray

    @property
    def _is_centred(self) -> bool:
        """Whether a mean is subtracted: of all rows, or of those of a site."""
        raise NotImplementedError

    def _state_centring(self, moment: FloatArray, length: float) -> None:
        """State which mean was subtracted; without one, that verdicts hold only for a mean of zero.

        Second moments cannot tell a mean from what varies: rows of either sign with equal chances have the same ones
        and mean zero. What they show is how long a mean can be, because its square is at most their largest eigenvalue.

        Parameters
        ----------
        moment : array of shape (D, D)
            The released matrix.
        length : float
            Largest length of a row, in its units.
        """
        if self.adjust is not None:
            self.assumptions_.append("covariances within sites: from every record the mean of its site is subtracted")
        elif self._is_centred:
            self.assumptions_.append("covariances: from every record the mean of all is subtracted")
        else:
            longest = math.sqrt(max(float(top_values(moment, 1)[0]), 0.0)) / length
            self.assumptions_.append(
                "second moments, for records that have mean zero by construction: no release shows whether they have, "
                f"and a mean up to {min(longest, 1.0):.2g} of the largest length of a row gives the same result"
            )
            self.verdicts_ = [
                replace(verdict, reason=f"{verdict.reason}, {_ONLY_IF}") if verdict.word == DETERMINED else verdict
                for verdict in self.verdicts_
            ]

    def _shares(self, federation: Federation) -> Sequence[float]:
        if self.adjust is not None:
            refuse_weights(federation, f"where {type(self).__name__} adjusts for sites")
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
            raise InvalidParameter("site", "be left out where the model was not adjusted for sites", "a name")
        if site not in self.sites_:
            raise InvalidParameter("site", f"be one of {', '.join(self.sites_)}", repr(site), "Leave it out.")
        return np.asarray(self.site_means_[int(np.flatnonzero(self.sites_ == site)[0])])
