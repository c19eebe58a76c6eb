"""Joint analyses across sites that cannot pool their data, under differential privacy."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dpcape.core._version import __version__

# Imported on first use: a site needs neither estimators nor scikit-learn.
_WHERE = {
    name: module
    for module, names in {
        "records": "rows views labelled",
        "records.words_and_series": "documents subjects",
        "records.typed_table": "table",
        "records.readers.sql": "sql",
        "schema.schema": "Schema",
        "site.in_process": "in_process",
        "federation.federation": "Federation",
        "core.protocols.cape": "Cape",
        "core.protocols.secure_sum": "SecureSum",
        "core.protocols.independent": "Independent",
        "core.protocols.dealer": "Dealer",
        "core.protocols.exact": "Exact",
        "core.noise": "Replay",
        "analyses.scaling": "Quantile",
        "statistics.bases": "Atlas Template",
        "statistics.cosines": "Cosines",
        "core.privacy.ledger": "Ledger",
        "estimators.mean": "Mean",
        "estimators.pca": "PCA",
        "estimators.polynomial_loss": "PolynomialLoss",
        "estimators.joint_ica": "JointICA",
        "estimators.generalized_linear_model": "GeneralizedLinearModel",
        "estimators.kmeans": "KMeans",
        "estimators.cox": "Cox",
        "estimators.kaplan_meier": "KaplanMeier",
        "estimators.log_rank": "LogRank",
        "estimators.network_classifier": "NetworkClassifier",
        "estimators.logistic_regression": "LogisticRegression",
        "estimators.linear_regression": "LinearRegression",
        "estimators.cca": "CCA",
        "estimators.multi_cca": "MultiCCA",
        "estimators.pls": "PLS",
        "estimators.correlation": "Correlation",
        "estimators.mixture_model": "MixtureModel",
        "estimators.contrasts": "GroupContrast MassUnivariate",
        "estimators.harmonise": "Harmonise",
        "estimators.heterogeneity": "Heterogeneity",
        "estimators.summary": "Summary",
        "estimators.topic_model": "TopicModel",
        "estimators.torch_classifier": "TorchClassifier",
    }.items()
    for name in names.split()
}

if TYPE_CHECKING:
    from dpcape.analyses.scaling import Quantile
    from dpcape.core.noise import Replay
    from dpcape.core.privacy.ledger import Ledger
    from dpcape.core.protocols.cape import Cape
    from dpcape.core.protocols.dealer import Dealer
    from dpcape.core.protocols.exact import Exact
    from dpcape.core.protocols.independent import Independent
    from dpcape.core.protocols.secure_sum import SecureSum
    from dpcape.estimators.cca import CCA
    from dpcape.estimators.contrasts import GroupContrast, MassUnivariate
    from dpcape.estimators.correlation import Correlation
    from dpcape.estimators.cox import Cox
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
    from dpcape.federation.federation import Federation
    from dpcape.records import labelled, rows, views
    from dpcape.records.readers.sql import sql
    from dpcape.records.typed_table import table
    from dpcape.records.words_and_series import documents, subjects
    from dpcape.schema.schema import Schema
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
