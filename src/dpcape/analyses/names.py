"""Where each analysis is described."""

IN_STUDIES = {
    "cca": "dpcape.analyses.cca:CCA",
    "correlation": "dpcape.analyses.correlation:CORRELATION",
    "cox": "dpcape.analyses.cox:COX",
    "generalized_linear_model": "dpcape.analyses.generalized_linear_model:GENERALIZED_LINEAR_MODEL",
    "group_contrast": "dpcape.analyses.contrasts:GROUP_CONTRAST",
    "harmonise": "dpcape.analyses.harmonise:HARMONISE",
    "heterogeneity": "dpcape.analyses.heterogeneity:HETEROGENEITY",
    "joint_ica": "dpcape.analyses.joint_ica:JOINT_ICA",
    "kaplan_meier": "dpcape.analyses.survival:KAPLAN_MEIER",
    "kmeans": "dpcape.analyses.kmeans:KMEANS",
    "linear_regression": "dpcape.analyses.regression:LINEAR_REGRESSION",
    "log_rank": "dpcape.analyses.survival:LOG_RANK",
    "logistic_regression": "dpcape.analyses.regression:LOGISTIC_REGRESSION",
    "mass_univariate": "dpcape.analyses.contrasts:MASS_UNIVARIATE",
    "mean": "dpcape.analyses.mean:MEAN",
    "mixture_model": "dpcape.analyses.mixture_model:MIXTURE_MODEL",
    "multi_cca": "dpcape.analyses.multi_cca:MULTI_CCA",
    "network_classifier": "dpcape.analyses.network_classifier:NETWORK_CLASSIFIER",
    "pca": "dpcape.analyses.pca:PCA",
    "pls": "dpcape.analyses.pls:PLS",
    "polynomial_loss": "dpcape.analyses.polynomial_loss:POLYNOMIAL_LOSS",
    "summary": "dpcape.analyses.summary:SUMMARY",
    "topic_model": "dpcape.analyses.topic_model:TOPIC_MODEL",
    "torch_classifier": "dpcape.analyses.torch_classifier:TORCH_CLASSIFIER",
}
"""Analyses that a study may name -> module:attribute."""

IN_ONE_PROCESS = {"private_factor_model": "dpcape.analyses.private_factor_model:PRIVATE_FACTOR_MODEL"}
"""Analyses that run on one machine only."""
