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
        "estimators.linear.polynomial_loss": "PolynomialLoss",
        "estimators.ica.joint_ica": "JointICA",
        "estimators.linear.generalized_linear_model": "GeneralizedLinearModel",
        "estimators.clusters.kmeans": "KMeans",
        "estimators.survival.cox": "Cox",
        "estimators.survival.kaplan_meier": "KaplanMeier",
        "estimators.survival.log_rank": "LogRank",
        "estimators.networks.network_classifier": "NetworkClassifier",
        "estimators.linear.logistic_regression": "LogisticRegression",
        "estimators.linear.linear_regression": "LinearRegression",
        "estimators.views.cca": "CCA",
        "estimators.views.multi_cca": "MultiCCA",
        "estimators.views.pls": "PLS",
        "estimators.views.correlation": "Correlation",
        "estimators.clusters.mixture_model": "MixtureModel",
        "estimators.contrasts.contrasts": "GroupContrast MassUnivariate",
        "estimators.sites.harmonise": "Harmonise",
        "estimators.sites.heterogeneity": "Heterogeneity",
        "estimators.summary": "Summary",
        "estimators.topic_model": "TopicModel",
        "estimators.networks.torch_classifier": "TorchClassifier",
    }.items()
    for name in names.split()
}

if TYPE_CHECKING:
    from dpcape.analyses.scaling import Quantile as Quantile
    from dpcape.core.noise import Replay as Replay
    from dpcape.core.privacy.ledger import Ledger as Ledger
    from dpcape.core.protocols.cape import Cape as Cape
    from dpcape.core.protocols.dealer import Dealer as Dealer
    from dpcape.core.protocols.exact import Exact as Exact
    from dpcape.core.protocols.independent import Independent as Independent
    from dpcape.core.protocols.secure_sum import SecureSum as SecureSum
    from dpcape.estimators.clusters.kmeans import KMeans as KMeans
    from dpcape.estimators.clusters.mixture_model import MixtureModel as MixtureModel
    from dpcape.estimators.contrasts.contrasts import GroupContrast as GroupContrast
    from dpcape.estimators.contrasts.contrasts import MassUnivariate as MassUnivariate
    from dpcape.estimators.ica.joint_ica import JointICA as JointICA
    from dpcape.estimators.linear.generalized_linear_model import GeneralizedLinearModel as GeneralizedLinearModel
    from dpcape.estimators.linear.linear_regression import LinearRegression as LinearRegression
    from dpcape.estimators.linear.logistic_regression import LogisticRegression as LogisticRegression
    from dpcape.estimators.linear.polynomial_loss import PolynomialLoss as PolynomialLoss
    from dpcape.estimators.mean import Mean as Mean
    from dpcape.estimators.networks.network_classifier import NetworkClassifier as NetworkClassifier
    from dpcape.estimators.networks.torch_classifier import TorchClassifier as TorchClassifier
    from dpcape.estimators.pca import PCA as PCA
    from dpcape.estimators.sites.harmonise import Harmonise as Harmonise
    from dpcape.estimators.sites.heterogeneity import Heterogeneity as Heterogeneity
    from dpcape.estimators.summary import Summary as Summary
    from dpcape.estimators.survival.cox import Cox as Cox
    from dpcape.estimators.survival.kaplan_meier import KaplanMeier as KaplanMeier
    from dpcape.estimators.survival.log_rank import LogRank as LogRank
    from dpcape.estimators.topic_model import TopicModel as TopicModel
    from dpcape.estimators.views.cca import CCA as CCA
    from dpcape.estimators.views.correlation import Correlation as Correlation
    from dpcape.estimators.views.multi_cca import MultiCCA as MultiCCA
    from dpcape.estimators.views.pls import PLS as PLS
    from dpcape.federation.federation import Federation as Federation
    from dpcape.records import labelled as labelled
    from dpcape.records import rows as rows
    from dpcape.records import views as views
    from dpcape.records.readers.sql import sql as sql
    from dpcape.records.typed_table import table as table
    from dpcape.records.words_and_series import documents as documents
    from dpcape.records.words_and_series import subjects as subjects
    from dpcape.schema.schema import Schema as Schema
    from dpcape.site.in_process import in_process as in_process
    from dpcape.statistics.bases import Atlas as Atlas
    from dpcape.statistics.bases import Template as Template
    from dpcape.statistics.cosines import Cosines as Cosines

__all__ = ["__version__", *_WHERE]


def __getattr__(name: str) -> Any:
    module = f"dpcape.{_WHERE[name]}" if name in _WHERE else _described(name)
    if module is None:
        raise AttributeError(f"module 'dpcape' has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def _described(name: str) -> str | None:
    """Return the module of an estimator that only its description names, so that a new one needs no entry here."""
    if not name[:1].isupper():
        return None
    from dpcape.analyses.registry import own_analyses

    matches = [entry for entry in own_analyses().values() if entry.python == name and entry.in_studies]
    return matches[0].estimator.partition(":")[0] if matches else None


def __dir__() -> list[str]:
    return sorted(__all__)
