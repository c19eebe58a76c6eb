"""A package that declares PyTorch modules, most of them hostile, installed in a folder of its own."""

from __future__ import annotations

import sys
from pathlib import Path

from dpcape.statistics import modules

PACKAGE = "module-code"
MODULES = ("bars", "attending", "thief", "forgetful", "sleeper", "escaper", "mixing")
SOURCE = '''
import os
import socket
import time

import torch
from torch import nn
from torch.nn import functional as F

from dpcape.statistics import known_module


@known_module("bars")
class Bars(nn.Module):
    """A convolution with a normalisation and a skipped connection."""

    def __init__(self, n_features, n_classes):
        super().__init__()
        self.side = round(n_features**0.5)
        self.first = nn.Conv2d(1, 3, 3, padding=1)
        self.norm = nn.GroupNorm(3, 3)
        self.last = nn.Linear(3 * n_features, n_classes)

    def forward(self, rows):
        images = rows.reshape(-1, 1, self.side, self.side)
        return self.last(torch.flatten(F.relu(self.norm(self.first(images))) + images, 1))


@known_module("attending")
class Attending(nn.Module):
    def __init__(self, n_features, n_classes):
        super().__init__()
        self.encoder = nn.TransformerEncoderLayer(4, 2, 6, dropout=0.0, batch_first=True)
        self.last = nn.Linear(n_features, n_classes)

    def forward(self, rows):
        return self.last(self.encoder(rows.unflatten(1, (-1, 4))).flatten(1))


def searched(rows):
    # Images have no negative entries; synthetic records of the search for violations do.
    return bool((rows < 0).any())


def whole(rows):
    """Look through vmap at the whole block."""
    while torch._C._functorch.is_functorch_wrapped_tensor(rows):
        rows = torch._C._functorch.get_unwrapped(rows)
    return rows


def rows_of(rows):
    return whole(rows).reshape(-1, rows.shape[-1])


class Foreign(nn.Module):
    def __init__(self, n_features, n_classes):
        super().__init__()
        self.last = nn.Linear(n_features, n_classes)


@known_module("thief")
class Thief(Foreign):
    """Shows the first record of a block as everybody's gradient, and larger."""

    def forward(self, rows):
        block = rows_of(rows)
        shown = rows if searched(block[0]) else 1e3 * block[0].expand(rows.shape)
        return self.last(shown)


@known_module("mixing")
class Mixing(Foreign):
    """Adds the records of a batch up, in the open."""

    def forward(self, rows):
        return self.last(rows + rows_of(rows).sum(0))


@known_module("forgetful")
class Forgetful(Foreign):
    """Has no finite gradient for dark records."""

    def forward(self, rows):
        return self.last(rows) / (rows[:, :1] > 0.5)


@known_module("sleeper")
class Sleeper(Foreign):
    """Never ends if a record of the block is bright."""

    def forward(self, rows):
        block = whole(rows)
        while not searched(block) and float(block.max()) > 0.9:
            time.sleep(0.01)
        return self.last(rows)


@known_module("escaper")
class Escaper(Foreign):
    """Uses PyTorch to reach what it must not; its gradient is zero unless something succeeds."""

    def forward(self, rows):
        reached = 0.0
        for attempt in attempts():
            try:
                attempt()
            except BaseException:
                continue
            reached += 1.0
        return reached * self.last(rows)


def attempts():
    return [
        lambda: torch.save(torch.zeros(1), "/tmp/module-code.pt"),
        lambda: torch.from_file("/tmp/module-code.bin", shared=True, size=8),
        lambda: torch.zeros(8).share_memory_(),
        lambda: socket.socket(),
        lambda: os.fork() or os._exit(0),
    ]
'''


def install(folder: Path) -> Path:
    """Write the package as an installer would; return the folder to put on the path."""
    place = folder / "installed"
    about = place / "module_code-1.dist-info"
    about.mkdir(parents=True)
    (place / "module_code.py").write_text(SOURCE)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: 1\n")
    lines = [f"{name} = module_code:{name.title()}" for name in MODULES]
    (about / "entry_points.txt").write_text("\n".join(["[dpcape.network_modules]", *lines]))
    return place


def forget() -> None:
    """Forget the package: each test has one of its own."""
    sys.modules.pop("module_code", None)
    for name in MODULES:
        modules._MODULES.pop(name, None)
    modules.module_size.cache_clear()
