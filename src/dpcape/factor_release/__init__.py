"""The factor-analysis release of a single holder: factors instead of features, and a measured risk.

There is no differential-privacy guarantee here; see :mod:`dpcape.factor_release.risk` for what is reported instead.
"""

from dpcape.factor_release.bundle import Bundle, ThirdPartyFit, fit_bundle
from dpcape.factor_release.bundle_reader import read_bundle
from dpcape.factor_release.choice_of_factors import ChoiceOfFactors, choose_n_factors
from dpcape.factor_release.factor_release import FactorRelease
from dpcape.factor_release.prediction import Interval, TestError
from dpcape.factor_release.private_factor_model import PrivateFactorModel
from dpcape.factor_release.recommended import RecommendedModel
from dpcape.factor_release.release_files import ReleasePaths
from dpcape.factor_release.risk import RiskReport

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
