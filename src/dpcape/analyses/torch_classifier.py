"""Description of training a registered PyTorch module by clipped gradients."""

from __future__ import annotations

from collections.abc import Sequence

from dpcape.analyses.description import REGRESSIONS, Analysis, Public
from dpcape.analyses.footprint import Workspace, sent_weights
from dpcape.analyses.kmeans import SEED
from dpcape.analyses.network_classifier import refuse_momentum, without_classes
from dpcape.analyses.parameters import NUMBER, OTHER, POSITIVE, WHOLE, CodeNames, Parameter, shown
from dpcape.analyses.release import Release, Steps
from dpcape.core.errors import InvalidParameter
from dpcape.statistics.modules import module_of, module_size

NETWORK_MODULES = "dpcape.network_modules"
"""Entry points under which packages declare modules."""


def _schedule(p: Public) -> Steps:
    yield without_classes(p)
    numbers = {"size": module_size(p.module, p.n_features, p.n_classes), "clip": p.clip}
    assumption = module_of(p.module).assumption
    yield Release("module_gradient", numbers, 1 / p.n_iter, p.n_iter, assumption=assumption)


def _refuse_module(value: object, p: Public) -> None:
    if not isinstance(value, str):
        remedy = "Register yours with known_module."
        raise InvalidParameter("module", "be the name of a registered module", shown(value), remedy)
    module_of(value)


def _workspace(p: Public, sizes: Sequence[float]) -> Workspace:
    # Gradients of single records are computed in blocks of at most 16 MiB, and held about four times.
    return sent_weights(p, sizes)._replace(site=4 * 2**24)


TORCH_CLASSIFIER = Analysis(
    name="torch_classifier",
    estimator="dpcape.estimators.networks.torch_classifier:TorchClassifier",
    group=REGRESSIONS,
    place=5,
    kinds=frozenset({"labelled"}),
    records="labelled",
    labels="classes",
    parameters=(
        # dpcape has no modules of its own.
        Parameter("module", OTHER, refuse=_refuse_module, code=CodeNames(NETWORK_MODULES, frozenset)),
        Parameter("n_iter", WHOLE, 60, 1, 10**6),
        Parameter("clip", POSITIVE, 1.0),
        Parameter("learning_rate", POSITIVE, None, optional=True),
        Parameter("momentum", NUMBER, None, optional=True, refuse=refuse_momentum),
        SEED,
    ),
    schedule=_schedule,
    workspace=_workspace,
    reason="clipped per-record gradients of a module that is not part of dpcape and must treat each record by itself",
    reference="docs/analyses/network.md#privacy",
)
