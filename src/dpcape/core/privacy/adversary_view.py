"""The adversary's view as a matrix, and how far one record can move it.

A protocol writes its view row by row: every message, broadcast or secret that the adversary holds is a sum of site
statistics (``shift``) and of independent noise sources (``mixing``). A site's exposure then follows by linear algebra;
no variance is derived by hand. See ``docs/noise.md`` for why integer noise may be treated as Gaussian here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpcape.core.arrays import FloatArray

_RANK_TOLERANCE = 1e-9


@dataclass(frozen=True)
class AdversaryView:
    """Linear-Gaussian view ``shift @ statistics + mixing @ noise``.

    Attributes
    ----------
    shift : (rows, sites) array
        Coefficients of the sites' statistics in each row.
    mixing : (rows, sources) array
        Coefficients of the noise sources in each row.
    variances : (sources,) array
        Variance of each source.
    """

    shift: FloatArray
    mixing: FloatArray
    variances: FloatArray

    def exposures(self) -> FloatArray:
        """Return each site's mu for a statistic of sensitivity one; infinite where the view determines the statistic.

        Moving site s's statistic by a vector of length 1 moves the view's mean by column s of ``shift``; its length in
        units of the view's covariance is the exposure.
        """
        spread = self.mixing * np.sqrt(self.variances)
        size = np.linalg.norm(spread, axis=1)
        bare = size == 0
        if bare.any():
            exposed = (self.shift[bare] != 0).any(axis=0)
            spread, shift, size = spread[~bare], self.shift[~bare], size[~bare]
        else:
            exposed, shift = np.zeros(self.shift.shape[1], dtype=bool), self.shift
        if size.size == 0:
            return np.where(exposed, np.inf, 0.0)
        directions, singular, _ = np.linalg.svd(spread / size[:, None], full_matrices=False)
        is_nonzero = singular > _RANK_TOLERANCE * singular[0]
        directions, singular = directions[:, is_nonzero], singular[is_nonzero]
        scaled = shift / size[:, None]
        # Parts of the shift inside and outside of the space that the noise spans.
        inside = directions.T @ scaled
        outside = np.linalg.norm(scaled - directions @ inside, axis=0)
        exposed |= outside > _RANK_TOLERANCE * np.maximum(np.linalg.norm(scaled, axis=0), 1e-300)
        return np.where(exposed, np.inf, np.linalg.norm(inside / singular[:, None], axis=0))
