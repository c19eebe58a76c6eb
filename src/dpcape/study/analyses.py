"""Which analyses a study may name: every public estimator, under its class name in small letters."""

from __future__ import annotations

import inspect
import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpcape.estimators.estimator import FederatedEstimator

# Given by the study's own fields.
_OWN = {"epsilon", "delta"}


@cache
def analyses() -> dict[str, type[FederatedEstimator]]:
    """Return the analyses by name: ``PCA`` is "pca", ``TopicModel`` is "topic_model".

    Examples
    --------
    >>> analyses()["linear_regression"].__name__
    'LinearRegression'
    """
    # Imported here: reading a study needs no estimator before it is asked what the analysis is.
    import dpcape
    from dpcape.estimators.estimator import FederatedEstimator

    public = (getattr(dpcape, name) for name in dpcape.__all__)
    found = [entry for entry in public if inspect.isclass(entry) and issubclass(entry, FederatedEstimator)]
    return {_small(entry.__name__): entry for entry in sorted(found, key=lambda entry: entry.__name__)}


def parameters(kind: type[FederatedEstimator]) -> dict[str, bool]:
    """Return the names of an analysis' parameters, and whether each must be given."""
    signature = inspect.signature(kind)
    return {
        name: parameter.default is inspect.Parameter.empty
        for name, parameter in signature.parameters.items()
        if name not in _OWN
    }


def _small(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
