"""Where each statistic is defined: the only list by which a site finds code for a request."""

_IN_MODULES = {
    "core.enclosed": "record_by_record sampled",
    "statistics.adjusted_products": "design_moments residual_products",
    "statistics.basis_moments": (
        "basis_moments centred_basis_moments residual_maps scaled_basis_moments scaled_centred_basis_moments "
        "scaled_residual_maps"
    ),
    "statistics.clipped_means": "clipped_means scaled_clipped_means",
    "statistics.clusters": "cluster_sums recentred_cluster_sums reduced_cluster_sums scaled_cluster_sums",
    "statistics.complete_rows": (
        "complete_absolute_deviations complete_first_moments complete_radius_histogram complete_scaled_centred_moments"
    ),
    "statistics.event_counts": "event_counts",
    "statistics.family_scores": "class_scores ratio_scores scaled_class_scores scaled_ratio_scores",
    "statistics.followed_columns": "followed_columns",
    "statistics.fourth_moments": "fourth_moment reduced_second_moment",
    "statistics.gradients": "deep_gradient linear_gradient network_gradient",
    "statistics.grouped_counts": "grouped_counts",
    "statistics.hazard_scores": "hazard_scores",
    "statistics.infomax_scores": "infomax_scores",
    "statistics.mixture_steps": "mixture_step",
    "statistics.modules": "module_gradient",
    "statistics.moments": "centred_moments first_moments histogram second_moment site_centred_moments",
    "statistics.polynomials": "polynomial_coefficients",
    "statistics.regression_moment": "regression_moment",
    "statistics.regression_rounds": (
        "residual_gradient residual_spread scaled_residual_gradient scaled_residual_spread "
        "scaled_weighted_regression_moment weighted_regression_moment"
    ),
    "statistics.scaling": (
        "absolute_deviations radius_histogram scaled_centred_moments scaled_first_moments "
        "scaled_second_moment scaled_site_centred_moments"
    ),
    "statistics.score_rounds": "count_scores logistic_scores scaled_count_scores scaled_logistic_scores",
    "statistics.site_moments": "site_moments",
    "statistics.subject_moments": "subject_covariance subject_log_covariance subject_projector subject_tensor",
    "statistics.subject_scores": "subject_infomax subject_polish",
    "statistics.third_moments": "third_moment whitened_third_moment",
    "statistics.word_moments": "whitened_word_triples word_pairs word_shares word_triples",
}
STATISTICS = {name: f"dpcape.{module}" for module, names in _IN_MODULES.items() for name in names.split()}
"""Name in messages -> module."""
