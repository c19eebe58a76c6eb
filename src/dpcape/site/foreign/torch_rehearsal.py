"""Warm up PyTorch: everything it loads and allocates for its first gradient is in memory before files are closed off.

No code of another package runs here, and no records are accessible.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from dpcape.statistics.torch_modules import TorchModule

if TYPE_CHECKING:
    import torch

    Layers: TypeAlias = Callable[[int, int], torch.nn.Module]

_SIDE, _N_CLASSES, _N_RECORDS = 8, 3, 2


def rehearse_gradients() -> None:
    """Compute gradients of small networks with PyTorch, on one thread; does nothing where it is not installed.

    A child can start no thread. Graphics cards are hidden: PyTorch would start threads for them, which a child that is
    forked does not inherit.
    """
    os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["HIP_VISIBLE_DEVICES"] = ""
    try:
        torch = import_module("torch")
    except ImportError:
        return
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    rows = np.linspace(-1.0, 1.0, _N_RECORDS * _SIDE**2).reshape(_N_RECORDS, -1)
    codes = np.arange(_N_RECORDS) % _N_CLASSES
    for number, layers in enumerate(_networks()):
        network = TorchModule(f"rehearsal {number}", layers)
        # A layer that has no gradient of single records cannot be used in a child either.
        with contextlib.suppress(Exception):
            network.gradients(network.start(_SIDE**2, _N_CLASSES, 0), rows, codes, _N_CLASSES)


def _networks() -> list[Layers]:
    """Return networks that have most kinds of layers between them."""
    nn = import_module("torch").nn

    def images(n_features: int, n_classes: int) -> torch.nn.Module:
        layers = [nn.Unflatten(1, (1, _SIDE, _SIDE)), nn.Conv2d(1, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.ReLU()]
        layers += [nn.MaxPool2d(2), nn.Conv2d(4, 4, 3), nn.LeakyReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten()]
        network: torch.nn.Module = nn.Sequential(*layers, nn.Linear(16, n_classes))
        return network

    def series(n_features: int, n_classes: int) -> torch.nn.Module:
        layers = [nn.Unflatten(1, (_SIDE, _SIDE)), nn.Conv1d(_SIDE, 4, 3), nn.ELU(), nn.AvgPool1d(2), nn.Flatten()]
        network: torch.nn.Module = nn.Sequential(*layers, nn.Linear(12, n_classes))
        return network

    def layered(n_features: int, n_classes: int) -> torch.nn.Module:
        layers = [nn.Linear(n_features, 6), nn.LayerNorm(6), nn.Tanh(), nn.Linear(6, 6), nn.GELU(), nn.Linear(6, 6)]
        layers += [nn.SiLU(), nn.Sigmoid(), nn.Softplus(), nn.Softmax(1)]
        network: torch.nn.Module = nn.Sequential(*layers, nn.Linear(6, n_classes))
        return network

    def attending(n_features: int, n_classes: int) -> torch.nn.Module:
        layer = nn.TransformerEncoderLayer(_SIDE, 2, 8, dropout=0.0, batch_first=True)
        network: torch.nn.Module = nn.Sequential(
            nn.Unflatten(1, (_SIDE, _SIDE)), layer, nn.Flatten(), nn.Linear(n_features, n_classes)
        )
        return network

    return [images, series, layered, attending]
