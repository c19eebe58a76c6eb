"""What analyses of moments by site share."""

from __future__ import annotations

from typing import ClassVar

from dpcape.estimators.estimator import FederatedEstimator
from dpcape.federation.allowance import Allowance
from dpcape.statistics.site_moments import SiteMeans, SiteMoments

BY_SITE = "Noisy totals of each site are visible in this result, under every protocol."
"""What results with figures of sites must say."""


class OfSites(FederatedEstimator):
    """Base class of analyses whose releases have a part for each site."""

    _builder: ClassVar[str] = "table(data, columns={...})"
    _takes_weights = False

    def _sums(self, statistic: SiteMoments, private: Allowance) -> tuple[SiteMeans, float]:
        """Return sums over all records, and the standard deviation of their noise."""
        means = private.mean(statistic)
        release = private.releases[-1]
        # Tables have no invalid records: undo the division by the noisy count of valid records.
        factor = release.n_records * private.counted.divisor
        return SiteMeans(*(part * factor for part in means)), release.scale * release.n_records
