"""Estimators: each requests private means of bounded statistics and post-processes them."""

from dpcape.estimators.cca import CCA
from dpcape.estimators.contrasts import GroupContrast, MassUnivariate
from dpcape.estimators.correlation import Correlation
from dpcape.estimators.cox import Cox
from dpcape.estimators.estimator import FederatedEstimator
from dpcape.estimators.generalized_linear_model import GeneralizedLinearModel
from dpcape.estimators.harmonise import Harmonise
from dpcape.estimators.heterogeneity import Heterogeneity
from dpcape.estimators.joint_ica import JointICA
from dpcape.estimators.kaplan_meier import KaplanMeier
from dpcape.estimators.kmeans import KMeans
from dpcape.estimators.linear_regression import LinearRegression
from dpcape.estimators.log_rank import LogRank
from dpcape.estimators.logistic_regression import LogisticRegression
from dpcape.estimators.mean import Mean
from dpcape.estimators.mixture_model import MixtureModel
from dpcape.estimators.multi_cca import MultiCCA
from dpcape.estimators.network_classifier import NetworkClassifier
from dpcape.estimators.pca import PCA
from dpcape.estimators.pls import PLS
from dpcape.estimators.polynomial_loss import PolynomialLoss
from dpcape.estimators.summary import Summary
from dpcape.estimators.topic_model import TopicModel
from dpcape.estimators.torch_classifier import TorchClassifier

__all__ = [
    "CCA",
    "PCA",
    "PLS",
    "Correlation",
    "Cox",
    "FederatedEstimator",
    "GeneralizedLinearModel",
    "GroupContrast",
    "Harmonise",
    "Heterogeneity",
    "JointICA",
    "KMeans",
    "KaplanMeier",
    "LinearRegression",
    "LogRank",
    "LogisticRegression",
    "MassUnivariate",
    "Mean",
    "MixtureModel",
    "MultiCCA",
    "NetworkClassifier",
    "PolynomialLoss",
    "Summary",
    "TopicModel",
    "TorchClassifier",
]
