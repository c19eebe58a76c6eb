"""The factor-analysis release of a single holder: factors instead of features, and a measured risk.

There is no differential-privacy guarantee here; see :mod:`dpcape.release.risk` for what is reported instead.
"""

from dpcape.release.bundle import Bundle, ThirdPartyFit, fit_bundle
from dpcape.release.bundle_reader import read_bundle
from dpcape.release.factor_release import FactorRelease
from dpcape.release.prediction import Interval, TestError
from dpcape.release.recommended import RecommendedModel
from dpcape.release.release_files import ReleasePaths
from dpcape.release.risk import RiskReport

__all__ = [
    "Bundle",
    "FactorRelease",
    "Interval",
    "RecommendedModel",
    "ReleasePaths",
    "RiskReport",
    "TestError",
    "ThirdPartyFit",
    "fit_bundle",
    "read_bundle",
]
