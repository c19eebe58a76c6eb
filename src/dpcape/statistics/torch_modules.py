"""PyTorch modules as registered networks: gradients of single records by ``vmap`` over calls with one record.

PyTorch is imported when a module is registered or used, never before: dpcape works without it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np

from dpcape.core.arrays import FloatArray, IntArray
from dpcape.core.errors import InvalidParameter
from dpcape.core.lazy import extra_module
from dpcape.statistics.modules import NetworkModule, register_module

if TYPE_CHECKING:
    import torch

    Tensor: TypeAlias = torch.Tensor
    Parameters: TypeAlias = dict[str, Tensor]
    Factory: TypeAlias = Callable[[int, int], torch.nn.Module]

_F = TypeVar("_F", bound="Factory")
# Layers whose output for a record depends on the other records of a batch, or on those seen before.
_MIXING = ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm")
_TRACKING = ("InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d")
_RANDOM = ("Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout", "RReLU")


def known_module(name: str) -> Callable[[_F], _F]:
    """Register a PyTorch module under a name (decorator of a function or class that makes it).

    What is decorated is called with the number of columns and the number of classes and returns an ``nn.Module`` that
    maps (records, columns) to (records, classes). The Python module that holds it must be imported before it is used.

    Parameters
    ----------
    name : str
        Name by which estimators and messages refer to it.

    Returns
    -------
    callable
        Decorator that returns what it decorates.
    """

    def register(factory: _F) -> _F:
        register_module(TorchModule(name, factory))
        return factory

    return register


class TorchModule(NetworkModule):
    """PyTorch module whose trainable parameters are the weights, in double precision and in evaluation mode.

    Parameters
    ----------
    name : str
        Name in messages and parameters.
    factory : callable
        Function from the number of columns and of classes to an ``nn.Module``.
    """

    def __init__(self, name: str, factory: Factory) -> None:
        self.name = name
        self._factory = factory
        # One module per shape of records; building runs the author's code.
        self._built = lru_cache(maxsize=8)(self._build)

    def n_weights(self, n_features: int, n_classes: int) -> int:
        return sum(parameter.numel() for parameter in self._trained(self._built(n_features, n_classes)).values())

    def start(self, n_features: int, n_classes: int, seed: int) -> FloatArray:
        trained = self._trained(self._build(n_features, n_classes, seed)).values()
        weights: FloatArray = _torch().cat([entry.detach().reshape(-1) for entry in trained]).numpy()
        return weights.astype(np.float64)

    def outputs(self, weights: FloatArray, rows: FloatArray, n_classes: int) -> FloatArray:
        torch = _torch()
        module = self.module(weights, rows.shape[1], n_classes)
        with torch.no_grad():
            blocks = [module(block) for block in torch.from_numpy(np.ascontiguousarray(rows)).split(1024)]
        outputs: FloatArray = torch.cat(blocks).numpy() if blocks else np.zeros((0, n_classes))
        return outputs

    def gradients(self, weights: FloatArray, rows: FloatArray, codes: IntArray, n_classes: int) -> FloatArray:
        try:
            return self._gradients(weights, rows, codes, n_classes)
        except Exception:  # in code of others: one record must not change what others contribute
            if len(rows) == 1:
                return np.full((1, len(weights)), np.nan)
            single = [self.gradients(weights, rows[[at]], codes[[at]], n_classes) for at in range(len(rows))]
            return np.concatenate(single)

    def module(self, weights: FloatArray, n_features: int, n_classes: int) -> torch.nn.Module:
        """Return the module with these weights, in double precision and in evaluation mode."""
        torch = _torch()
        module = self._build(n_features, n_classes)
        values = self._split(weights, module)
        with torch.no_grad():
            for name, parameter in self._trained(module).items():
                parameter.copy_(values[name])
        return module

    def _gradients(self, weights: FloatArray, rows: FloatArray, codes: IntArray, n_classes: int) -> FloatArray:
        torch = _torch()
        module = self._built(rows.shape[1], n_classes)

        def loss(parameters: Parameters, row: Tensor, code: Tensor) -> Tensor:
            outputs = torch.func.functional_call(module, parameters, (row[None],))
            return torch.nn.functional.cross_entropy(outputs, code[None])

        # Random operations are refused, because the gradient of a record must be the same each time.
        each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0), randomness="error")
        data = torch.from_numpy(np.ascontiguousarray(rows)), torch.from_numpy(np.asarray(codes, dtype=np.int64))
        by_name = each(self._split(weights, module), *data)
        flat = torch.cat([by_name[name].reshape(len(rows), -1) for name in self._trained(module)], dim=1)
        gradients: FloatArray = flat.to(torch.float64).numpy()
        return gradients

    def _build(self, n_features: int, n_classes: int, seed: int = 0) -> torch.nn.Module:
        torch = _torch()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            module = self._factory(n_features, n_classes)
        if not isinstance(module, torch.nn.Module):
            remedy = "Return one from the function that known_module decorates."
            raise InvalidParameter(f"The module {self.name!r}", "be an nn.Module", type(module).__name__, remedy)
        self._refuse_layers(module)
        module = module.double().eval()
        self._try(module, n_features, n_classes)
        return module

    def _refuse_layers(self, module: torch.nn.Module) -> None:
        """Refuse layers that mix records or are random, and parameters without a shape."""
        torch = _torch()
        for layer in module.modules():
            if _is_one_of(layer, _MIXING) or (_is_one_of(layer, _TRACKING) and layer.track_running_stats):
                raise InvalidParameter(
                    f"The module {self.name!r}",
                    "treat each record by itself",
                    f"a layer {type(layer).__name__}, which mixes the records of a batch",
                    "Use nn.GroupNorm or nn.LayerNorm.",
                )
            if _is_one_of(layer, _RANDOM) and getattr(layer, "p", 1.0) != 0:
                subject = f"The module {self.name!r}"
                must = "compute the same for a record each time"
                remedy = "Leave it out."
                raise InvalidParameter(subject, must, f"a layer {type(layer).__name__}, which is random", remedy)
        if any(isinstance(entry, torch.nn.parameter.UninitializedParameter) for entry in module.parameters()):
            must = "have parameters of known shape"
            remedy = "Give its input size, which follows from the number of columns."
            raise InvalidParameter(f"The module {self.name!r}", must, "a lazy layer", remedy)
        if not self._trained(module):
            must = "have trainable parameters; all are frozen, or there are no parameters"
            raise InvalidParameter(f"The module {self.name!r}", must, remedy="Set requires_grad.")

    def _try(self, module: torch.nn.Module, n_features: int, n_classes: int) -> None:
        """Refuse a module that cannot be applied to one synthetic record, or not within ``vmap``."""
        torch = _torch()

        def outputs(parameters: Parameters, row: Tensor) -> Tensor:
            result: Tensor = torch.func.functional_call(module, parameters, (row[None],))
            if tuple(result.shape) != (1, n_classes) or result.dtype != torch.float64:
                subject = f"The module {self.name!r}"
                must = f"map one record of {n_features} columns to {n_classes} outputs in double precision"
                raise InvalidParameter(subject, must, f"shape {tuple(result.shape)} of {result.dtype}", "Correct it.")
            return result.logsumexp(1).sum()

        trained = {name: parameter.detach() for name, parameter in self._trained(module).items()}
        rows = torch.linspace(-0.5, 0.5, 2 * n_features, dtype=torch.float64).reshape(2, n_features)
        try:
            torch.func.vmap(torch.func.grad(outputs), in_dims=(None, 0), randomness="error")(trained, rows)
        except InvalidParameter:
            raise
        except Exception as error:  # in code of others
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise InvalidParameter(
                f"The module {self.name!r}",
                "have a gradient for each single record",
                f"an error from PyTorch ({reason})",
                "Avoid random operations, changes in place and branches that depend on values.",
            ) from error

    def _trained(self, module: torch.nn.Module) -> dict[str, torch.nn.Parameter]:
        return {name: entry for name, entry in module.named_parameters() if entry.requires_grad}

    def _split(self, weights: FloatArray, module: torch.nn.Module) -> Parameters:
        """Return a weight vector as parameters by name."""
        torch = _torch()
        trained = self._trained(module)
        pieces = torch.from_numpy(np.array(weights)).split([entry.numel() for entry in trained.values()])
        return {name: piece.reshape(entry.shape) for (name, entry), piece in zip(trained.items(), pieces, strict=True)}


def _is_one_of(layer: torch.nn.Module, names: tuple[str, ...]) -> bool:
    return isinstance(layer, tuple(getattr(_torch().nn, name) for name in names))


def _torch() -> ModuleType:
    return extra_module("torch", "PyTorch, which TorchClassifier needs,", "torch")
