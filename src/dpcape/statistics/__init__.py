"""What may be asked of records; each statistic knows its own sensitivity."""

from dpcape.statistics.base import Statistic, build, known
from dpcape.statistics.moments import centred_moments, first_moments, histogram, second_moment

__all__ = ["Statistic", "build", "centred_moments", "first_moments", "histogram", "known", "second_moment"]
