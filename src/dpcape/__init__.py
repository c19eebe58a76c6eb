"""Joint analyses across sites that cannot pool their data, under differential privacy."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dpcape._version import __version__

# Imported on first use: a site needs neither estimators nor scikit-learn.
_WHERE = {
    "rows": "records",
    "views": "records",
    "labelled": "records",
    "documents": "records",
    "subjects": "records",
    "table": "records",
    "sql": "records.readers.sql",
    "Schema": "schema",
    "in_process": "site.in_process",
    "Federation": "federation",
    "Cape": "protocols",
    "SecureSum": "protocols",
    "Independent": "protocols",
    "Dealer": "protocols",
    "Exact": "protocols",
    "Replay": "noise",
    "Quantile": "analyses.scaling",
    "Atlas": "statistics.bases",
    "Cosines": "statistics.cosines",
    "Template": "statistics.bases",
    "Ledger": "privacy",
    "Mean": "estimators",
    "PCA": "estimators",
    "PolynomialLoss": "estimators",
    "JointICA": "estimators",
    "GeneralizedLinearModel": "estimators",
    "KMeans": "estimators",
    "Cox": "estimators",
    "KaplanMeier": "estimators",
    "LogRank": "estimators",
    "NetworkClassifier": "estimators",
    "LogisticRegression": "estimators",
    "LinearRegression": "estimators",
    "CCA": "estimators",
    "MultiCCA": "estimators",
    "PLS": "estimators",
    "Correlation": "estimators",
    "MixtureModel": "estimators",
    "GroupContrast": "estimators",
    "Harmonise": "estimators",
    "Heterogeneity": "estimators",
    "MassUnivariate": "estimators",
    "Summary": "estimators",
    "TopicModel": "estimators",
    "TorchClassifier": "estimators",
}

if TYPE_CHECKING:
    from dpcape.analyses.scaling import Quantile
    from dpcape.estimators import (
        CCA,
        PCA,
        PLS,
        Correlation,
        Cox,
        GeneralizedLinearModel,
        GroupContrast,
        Harmonise,
        Heterogeneity,
        JointICA,
        KaplanMeier,
        KMeans,
        LinearRegression,
        LogisticRegression,
        LogRank,
        MassUnivariate,
        Mean,
        MixtureModel,
        MultiCCA,
        NetworkClassifier,
        PolynomialLoss,
        Summary,
        TopicModel,
        TorchClassifier,
    )
    from dpcape.federation import Federation
    from dpcape.noise import Replay
    from dpcape.privacy import Ledger
    from dpcape.protocols import Cape, Dealer, Exact, Independent, SecureSum
    from dpcape.records import documents, labelled, rows, subjects, table, views
    from dpcape.records.readers.sql import sql
    from dpcape.schema import Schema
    from dpcape.site.in_process import in_process
    from dpcape.statistics.bases import Atlas, Template
    from dpcape.statistics.cosines import Cosines

__all__ = [
    "CCA",
    "PCA",
    "PLS",
    "Atlas",
    "Cape",
    "Correlation",
    "Cosines",
    "Cox",
    "Dealer",
    "Exact",
    "Federation",
    "GeneralizedLinearModel",
    "GroupContrast",
    "Harmonise",
    "Heterogeneity",
    "Independent",
    "JointICA",
    "KMeans",
    "KaplanMeier",
    "Ledger",
    "LinearRegression",
    "LogRank",
    "LogisticRegression",
    "MassUnivariate",
    "Mean",
    "MixtureModel",
    "MultiCCA",
    "NetworkClassifier",
    "PolynomialLoss",
    "Quantile",
    "Replay",
    "Schema",
    "SecureSum",
    "Summary",
    "Template",
    "TopicModel",
    "TorchClassifier",
    "__version__",
    "documents",
    "in_process",
    "labelled",
    "rows",
    "sql",
    "subjects",
    "table",
    "views",
]


def __getattr__(name: str) -> Any:
    where = f"dpcape.{_WHERE[name]}" if name in _WHERE else _described(name)
    if where is None:
        raise AttributeError(f"module 'dpcape' has no attribute {name!r}")
    value = getattr(import_module(where), name)
    globals()[name] = value
    return value


def _described(name: str) -> str | None:
    """Return the module of an estimator that only its description names, so that a new one needs no entry here."""
    if not name[:1].isupper():
        return None
    from dpcape.analyses.registry import own_analyses

    found = [entry for entry in own_analyses().values() if entry.python == name and entry.in_studies]
    return found[0].estimator.partition(":")[0] if found else None


def __dir__() -> list[str]:
    return sorted(__all__)
