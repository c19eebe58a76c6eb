"""Statistics of records, each with its own sensitivity."""

from typing import TYPE_CHECKING

from dpcape.core.lazy import names_of

if TYPE_CHECKING:
    from dpcape.core.extent import Extent
    from dpcape.core.statistic import Statistic, build, known
    from dpcape.statistics.feature_maps import FeatureMap, known_map
    from dpcape.statistics.losses import LinearPredictorLoss, RecordLoss, known_loss
    from dpcape.statistics.modules import NetworkModule
    from dpcape.statistics.moments import centred_moments, first_moments, histogram, second_moment
    from dpcape.statistics.torch_modules import known_module

__all__ = [
    "Extent",
    "FeatureMap",
    "LinearPredictorLoss",
    "NetworkModule",
    "RecordLoss",
    "Statistic",
    "build",
    "centred_moments",
    "first_moments",
    "histogram",
    "known",
    "known_loss",
    "known_map",
    "known_module",
    "second_moment",
]
__getattr__ = names_of(
    __name__,
    {
        "dpcape.core.extent": "Extent",
        "dpcape.statistics.feature_maps": "FeatureMap known_map",
        "dpcape.statistics.losses": "LinearPredictorLoss RecordLoss known_loss",
        "dpcape.statistics.modules": "NetworkModule",
        "dpcape.statistics.moments": "centred_moments first_moments histogram second_moment",
        "dpcape.core.statistic": "Statistic build known",
        "dpcape.statistics.torch_modules": "known_module",
    },
)
