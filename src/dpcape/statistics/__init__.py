"""Statistics of records, each with its own sensitivity."""

from dpcape.statistics.clipped_means import clipped_means
from dpcape.statistics.clusters import cluster_sums, recentred_cluster_sums, reduced_cluster_sums
from dpcape.statistics.extent import Extent
from dpcape.statistics.feature_maps import FeatureMap, known_map
from dpcape.statistics.fourth_moments import fourth_moment, reduced_second_moment
from dpcape.statistics.gradients import deep_gradient, linear_gradient, network_gradient
from dpcape.statistics.infomax_scores import infomax_scores
from dpcape.statistics.losses import LinearPredictorLoss, RecordLoss, known_loss
from dpcape.statistics.mixture_steps import mixture_step
from dpcape.statistics.modules import NetworkModule, module_gradient
from dpcape.statistics.moments import centred_moments, first_moments, histogram, second_moment
from dpcape.statistics.poisson_loss import PoissonLoss
from dpcape.statistics.polynomials import polynomial_coefficients
from dpcape.statistics.regression_moment import regression_moment
from dpcape.statistics.statistic import Statistic, build, extent_of, known, statistic_class
from dpcape.statistics.subject_moments import (
    subject_covariance,
    subject_log_covariance,
    subject_projector,
    subject_tensor,
)
from dpcape.statistics.subject_scores import subject_infomax, subject_polish
from dpcape.statistics.third_moments import third_moment, whitened_third_moment
from dpcape.statistics.torch_modules import known_module
from dpcape.statistics.word_moments import whitened_word_triples, word_pairs, word_shares, word_triples

__all__ = [
    "Extent",
    "FeatureMap",
    "LinearPredictorLoss",
    "NetworkModule",
    "PoissonLoss",
    "RecordLoss",
    "Statistic",
    "build",
    "centred_moments",
    "clipped_means",
    "cluster_sums",
    "deep_gradient",
    "extent_of",
    "first_moments",
    "fourth_moment",
    "histogram",
    "infomax_scores",
    "known",
    "known_loss",
    "known_map",
    "known_module",
    "linear_gradient",
    "mixture_step",
    "module_gradient",
    "network_gradient",
    "polynomial_coefficients",
    "recentred_cluster_sums",
    "reduced_cluster_sums",
    "reduced_second_moment",
    "regression_moment",
    "second_moment",
    "statistic_class",
    "subject_covariance",
    "subject_infomax",
    "subject_log_covariance",
    "subject_polish",
    "subject_projector",
    "subject_tensor",
    "third_moment",
    "whitened_third_moment",
    "whitened_word_triples",
    "word_pairs",
    "word_shares",
    "word_triples",
]
