"""Saving a chain and going on with it: one .npz file of plain arrays and a JSON text, never pickle.

The file holds the features' fingerprint, not the features, but loadings and factors are as sensitive as the
data. It is for the holder only. It is written under a temporary name and then moved, so an interruption
leaves the former file intact.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import fields
from pathlib import Path

import numpy as np

from dpcape.core.errors import Failed
from dpcape.factor_release.gibbs_sampler import ChainState
from dpcape.factor_release.markov_chain import KeptDraws, MarkovChain

FORMAT = 1


def fingerprint(chain: MarkovChain) -> str:
    """Return a digest of the plan and the data a chain runs on."""
    digest = hashlib.sha256(chain.describe().encode())
    digest.update(np.ascontiguousarray(chain.features.values).data)
    return digest.hexdigest()


def save_chain(chain: MarkovChain, path: str | os.PathLike[str]) -> None:
    """Write everything needed to continue the chain exactly where it is."""
    header: dict[str, object] = {
        "format": FORMAT,
        "fingerprint": fingerprint(chain),
        "generator": chain.rng.bit_generator.state,
        "n_factors_trace": chain.n_factors_trace,
        "sweep": chain.state.sweep,
        "count": chain.kept.count if chain.kept is not None else None,
    }
    arrays = {f"state_{f.name}": getattr(chain.state, f.name) for f in fields(ChainState) if f.name != "sweep"}
    if chain.kept is not None:
        arrays |= {f"kept_{f.name}": getattr(chain.kept, f.name) for f in fields(KeptDraws) if f.name != "count"}
    target = Path(path)
    beside = target.with_name(target.name + ".part")
    with beside.open("wb") as stream:
        np.savez(stream, header=np.array(json.dumps(header)), **arrays)
    beside.replace(target)


def load_chain(chain: MarkovChain, path: str | os.PathLike[str]) -> MarkovChain:
    """Restore a saved chain into a new one of the same plan and data."""
    with np.load(path, allow_pickle=False) as stored:
        header = json.loads(str(stored["header"]))
        arrays = {name: stored[name] for name in stored.files if name != "header"}
    if header.get("format") != FORMAT or header.get("fingerprint") != fingerprint(chain):
        raise Failed(
            "The saved chain cannot be continued",
            "it is of different data or settings",
            "Use a new checkpoint folder, or restore the former settings.",
        )
    chain.rng.bit_generator.state = header["generator"]
    chain.n_factors_trace = [int(k) for k in header["n_factors_trace"]]
    state = {name.removeprefix("state_"): value for name, value in arrays.items() if name.startswith("state_")}
    chain.state = ChainState(**state, sweep=int(header["sweep"]))
    if header["count"] is not None:
        kept = {name.removeprefix("kept_"): value for name, value in arrays.items() if name.startswith("kept_")}
        chain.kept = KeptDraws(**kept, count=int(header["count"]))
    return chain
