"""Packages that run in environments of their own; called by ``run.py``, prints one line of JSON.

Usage: python peers.py diffprivlib|opacus KIND ARRAYS.npz DELTA SEEDS EPSILON...

diffprivlib guarantees pure epsilon (delta is not used), which is more than is asked; its models are given public norms
and ranges, and its own defaults otherwise. Its PCA of 50 columns did not finish within two minutes and is left out.
Opacus trains by DP-SGD with Poisson sampling and its own accountant (PRV), for records added or removed. Replacing a
record is removing one and adding one: with half of epsilon each, and delta / (1 + exp(epsilon / 2)), this is at most
(epsilon, delta).
"""

from __future__ import annotations

import json
import sys
import warnings

import numpy as np

# Fixed beforehand, without a search.
BATCH, EPOCHS, CLIP, STEP = 0.05, 20, 1.0, 1.0


def diffprivlib(kind, stored, epsilon, delta, seed):
    import diffprivlib.models as dp

    if kind == "pca":
        n = int(stored["n"])
        model = dp.PCA(n, epsilon=epsilon, data_norm=1.0, centered=True, random_state=seed).fit(stored["X"])
        moment = stored["moment"]
        basis = np.linalg.qr(model.components_.T)[0]
        return float(np.trace(basis.T @ moment @ basis) / np.linalg.eigvalsh(moment)[-n:].sum())
    if kind == "linear":
        X, y = stored["X"][:, 1:], stored["y"]
        width = X.shape[1]
        bounds = (-np.ones(width), np.ones(width))
        made = dp.LinearRegression(epsilon=epsilon, bounds_X=bounds, bounds_y=(-1, 1), random_state=seed).fit(X, y)
        predicted = np.clip(made.predict(stored["seen"][:, 1:]), -3, 3)
        return float(stored["half"] ** 2 * np.mean((stored["wanted"] - predicted) ** 2))
    if kind == "logistic":
        X, y = stored["X"], stored["y"]
        made = dp.LogisticRegression(epsilon=epsilon, data_norm=1.0, random_state=seed, max_iter=1000).fit(X, y)
        chances = np.clip(made.predict_proba(X)[np.arange(len(y)), y], 1e-300, 1)
        return float(-np.mean(np.log(chances)))
    X, n = stored["X"], int(stored["n"])
    width = X.shape[1]
    # Columns of images lie between 0 and 1, those of simulated clusters between -1 and 1.
    low = 0.0 if X.min() >= 0 else -1.0
    made = dp.KMeans(n, epsilon=epsilon, bounds=(np.full(width, low), np.ones(width)), random_state=seed).fit(X)
    centres = made.cluster_centers_
    inside = np.min((centres**2).sum(axis=1) - 2 * X @ centres.T, axis=1) + (X**2).sum(axis=1)
    return float((stored["one"] - inside.mean()) / (stored["one"] - stored["best"]))


def opacus(kind, stored, epsilon, delta, seed):
    import torch
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    X, y = torch.tensor(stored["X"], dtype=torch.float32), torch.tensor(stored["y"], dtype=torch.long)
    model = torch.nn.Linear(X.shape[1], int(y.max()) + 1, bias=kind == "classes")
    torch.nn.init.zeros_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=STEP, momentum=0.9 if kind == "classes" else 0.0)
    loader = DataLoader(TensorDataset(X, y), batch_size=max(1, int(BATCH * len(y))))
    engine = PrivacyEngine(accountant="prv")
    made = {"module": model, "optimizer": optimizer, "data_loader": loader, "max_grad_norm": CLIP}
    model, optimizer, loader = engine.make_private_with_epsilon(
        **made, target_epsilon=epsilon / 2, target_delta=delta / (1 + np.exp(epsilon / 2)), epochs=EPOCHS
    )
    loss = torch.nn.CrossEntropyLoss()
    for _ in range(EPOCHS):
        for rows, labels in loader:
            if len(labels) == 0:
                continue
            optimizer.zero_grad()
            loss(model(rows), labels).backward()
            optimizer.step()
    with torch.no_grad():
        if kind == "logistic":
            return float(loss(model(X), y))
        seen = torch.tensor(stored["seen"], dtype=torch.float32)
        return float((model(seen).argmax(dim=1).numpy() == stored["wanted"]).mean())


PEERS = {"diffprivlib": (diffprivlib, "diffprivlib (pure epsilon)"), "opacus": (opacus, "DP-SGD (Opacus)")}


def main():
    peer, kind, path, delta, seeds, *epsilons = sys.argv[1:]
    run, name = PEERS[peer]
    stored = dict(np.load(path))
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for epsilon in map(float, epsilons):
            found.append(
                (name, epsilon, [run(kind, stored, epsilon, float(delta), seed) for seed in range(int(seeds))])
            )
    print(json.dumps(found))


if __name__ == "__main__":
    main()
