"""The factor-analysis release of a single holder: factors instead of features, and a measured risk.

There is no differential-privacy guarantee here; see :mod:`dpcape.release.risk` for what is reported instead.
"""

from dpcape.release.bundle import Bundle, ThirdPartyFit, fit_bundle
from dpcape.release.bundle_reader import read_bundle
from dpcape.release.choice import ChoiceOfFactors, choose_n_factors
from dpcape.release.factor_release import FactorRelease
from dpcape.release.prediction import Interval, TestError
from dpcape.release.private_model import PrivateFactorModel
from dpcape.release.recommended import RecommendedModel
from dpcape.release.release_files import ReleasePaths
from dpcape.release.risk import RiskReport

__all__ = [
    "Bundle",
    "ChoiceOfFactors",
    "FactorRelease",
    "Interval",
    "PrivateFactorModel",
    "RecommendedModel",
    "ReleasePaths",
    "RiskReport",
    "TestError",
    "ThirdPartyFit",
    "choose_n_factors",
    "fit_bundle",
    "read_bundle",
]
