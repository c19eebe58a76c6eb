"""A PyTorch module of one's own, trained across sites: gradients of single records, refusals, files."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcape import (
    Cape,
    Exact,
    Federation,
    Independent,
    Replay,
    TorchClassifier,
    in_process,
    labelled,
)
from dpcape.core.errors import InvalidParameter
from dpcape.statistics.gradients import layers_of, network_gradient
from dpcape.statistics.modules import _MODULES, module_gradient, module_of, module_size
from dpcape.statistics.torch_modules import known_module

torch = pytest.importorskip("torch")
nn = torch.nn
pytestmark = pytest.mark.torch
Vector = NDArray[np.float64]


@pytest.fixture(autouse=True)
def _own_names() -> Iterator[None]:
    """Forget what a test registered."""
    before = dict(_MODULES)
    yield
    _MODULES.clear()
    _MODULES.update(before)
    module_size.cache_clear()


def small(n_features: int, n_classes: int) -> Any:
    return nn.Sequential(nn.Linear(n_features, 6), nn.ReLU(), nn.Linear(6, n_classes))


def images(n_features: int, n_classes: int) -> Any:
    side = math.isqrt(n_features)
    return nn.Sequential(
        nn.Unflatten(1, (1, side, side)),
        nn.Conv2d(1, 4, 3),
        nn.GroupNorm(2, 4),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.LazyLinear(n_classes) if side < 4 else nn.Linear(4 * ((side - 2) // 2) ** 2, n_classes),
    )


def corners(n_records: int, seed: int) -> tuple[Vector, NDArray[np.int64]]:
    """Four corners, opposite ones alike: linear classifiers guess."""
    X = np.random.default_rng(seed).uniform(-1, 1, (n_records, 2))
    return X, (X[:, 0] * X[:, 1] > 0).astype(np.int64)


def federation(X: Vector, y: Any, protocol: Any, seed: int = 0, bound: float = 1.5) -> Federation:
    classes = sorted(set(y.tolist()))
    held = {f"site{k}": labelled(X[k::3], y[k::3], bound=bound, classes=classes) for k in range(3)}
    return Federation(in_process(held, noise=Replay(seed)), protocol=protocol)


def test_gradients_are_those_of_the_same_network_in_numpy() -> None:
    known_module("small")(small)
    generator = np.random.default_rng(0)
    X, y = generator.uniform(-1, 1, (70, 4)), np.arange(70) % 3
    records = labelled(X, y, bound=2.0, classes=[0, 1, 2])
    hidden, output = layers_of(generator.standard_normal(6 * 5 + 3 * 7), (4, 6, 3))
    # PyTorch keeps weights and biases apart.
    weights = np.concatenate([hidden[:, :-1].ravel(), hidden[:, -1], output[:, :-1].ravel(), output[:, -1]])
    for clip in (1e6, 0.3):
        ours = network_gradient(records.facts(), hidden=hidden, output=output, clip=clip, input_scale=1.0)
        first, last = layers_of(ours.total(records), (4, 6, 3))
        wanted = np.concatenate([first[:, :-1].ravel(), first[:, -1], last[:, :-1].ravel(), last[:, -1]])
        found = module_gradient(records.facts(), module="small", weights=weights, clip=clip).total(records)
        # Those of dpcape are on a grid of 2^20 steps.
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=3e-4)


def test_a_convolution_is_clipped_record_by_record() -> None:
    known_module("images")(images)
    generator = np.random.default_rng(1)
    X, y = generator.uniform(-1, 1, (40, 64)), np.arange(40) % 3
    weights = module_of("images").start(64, 3, 0)

    def total(rows: Any, clip: float) -> Vector:
        part = labelled(X[rows], y[rows], bound=9.0, classes=[0, 1, 2])
        return module_gradient(part.facts(), module="images", weights=weights, clip=clip).total(part)

    single = np.array([total(slice(k, k + 1), 1e6) for k in range(40)])
    lengths = np.linalg.norm(single, axis=1, keepdims=True)
    clip = float(np.median(lengths))
    wanted = (single * np.minimum(1, clip / lengths)).sum(axis=0)
    np.testing.assert_allclose(total(slice(None), clip), wanted, rtol=1e-9, atol=1e-12)


def test_the_gradient_of_a_convolution_against_central_differences() -> None:
    known_module("images")(images)
    generator = np.random.default_rng(2)
    X, y = generator.uniform(-1, 1, (6, 36)), np.array([0, 1] * 3)
    weights = module_of("images").start(36, 2, 3)

    def losses(at: Vector) -> Vector:
        outputs = module_of("images").outputs(at, X, 2)
        return np.logaddexp(outputs[:, 0], outputs[:, 1]) - outputs[np.arange(6), y]

    found = module_of("images").gradients(weights, X, y, 2)
    steps = 1e-6 * np.eye(len(weights))
    wanted = np.array([(losses(weights + step) - losses(weights - step)) / 2e-6 for step in steps]).T
    np.testing.assert_allclose(found, wanted, atol=1e-7)


def test_a_module_learns_what_a_linear_classifier_cannot(tmp_path: Any) -> None:
    known_module("small")(small)
    X, y = corners(3000, 0)
    fresh, truth = corners(1000, 1)
    model = TorchClassifier("small", epsilon=8.0, delta=1e-5, n_iter=40)
    model.fit(federation(X, y, Cape(n_colluding=1)))
    assert model.score(fresh, truth) > 0.85
    assert model.guarantee_.epsilon <= 8.0
    assert model.guarantee_.releases == 40
    assert any("'small'" in text for text in model.guarantee_.assumptions)
    assert "conditional" in str(model.guarantee_)
    np.testing.assert_allclose(model.predict_proba(fresh).sum(axis=1), 1.0)
    with torch.no_grad():
        outputs = model.to_torch()(torch.from_numpy(fresh)).numpy()
    np.testing.assert_allclose(outputs, model.decision_function(fresh), atol=1e-12)
    model.save(tmp_path / "model.npz")
    loaded = TorchClassifier.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.predict_proba(fresh), model.predict_proba(fresh))
    with np.load(tmp_path / "model.npz", allow_pickle=False) as stored:
        assert stored["weights_"].dtype == np.float64


def test_a_fit_is_reproducible_and_leaves_the_generator_of_torch_alone() -> None:
    known_module("small")(small)
    X, y = corners(300, 0)
    torch.manual_seed(5)
    wanted = torch.rand(1)
    torch.manual_seed(5)
    fits = [
        TorchClassifier("small", epsilon=2.0, delta=1e-5, n_iter=3).fit(federation(X, y, Independent())).weights_
        for _ in range(2)
    ]
    np.testing.assert_array_equal(*fits)
    assert torch.rand(1) == wanted


def test_without_noise_it_is_gradient_descent() -> None:
    """Against PyTorch's own optimiser on the mean loss, without clipping and momentum; two rounds, last one kept."""
    known_module("small")(small)
    X, y = corners(200, 3)
    model = TorchClassifier("small", epsilon=1.0, delta=1e-5, n_iter=2, clip=1e3, learning_rate=0.5, momentum=0.0)
    model.fit(federation(X, y, Exact()))
    seed = int(np.random.RandomState(0).randint(2**31))
    module = _MODULES["small"]._build(2, 2, seed)
    optimiser = torch.optim.SGD(module.parameters(), lr=0.5)
    for _ in range(2):
        optimiser.zero_grad()
        nn.functional.cross_entropy(module(torch.from_numpy(X)), torch.from_numpy(y)).backward()
        optimiser.step()
    wanted = torch.cat([entry.detach().reshape(-1) for entry in module.parameters()]).numpy()
    np.testing.assert_allclose(model.weights_, wanted, atol=1e-9)


class Noisy(nn.Module):
    def __init__(self, n_features: int, n_classes: int) -> None:
        super().__init__()
        self.last = nn.Linear(n_features, n_classes)

    def forward(self, rows: Any) -> Any:
        return self.last(rows + torch.rand_like(rows))


class Branching(Noisy):
    def forward(self, rows: Any) -> Any:
        return self.last(rows) if float(rows.sum()) > 0 else -self.last(rows)


class Single(Noisy):
    def forward(self, rows: Any) -> Any:
        return self.last(rows).float()


class Remembering(Noisy):
    """Adds what it saw before, as a module must not."""

    def __init__(self, n_features: int, n_classes: int) -> None:
        super().__init__(n_features, n_classes)
        self.register_buffer("seen", torch.zeros(n_features))

    def forward(self, rows: Any) -> Any:
        self.seen += rows[0]
        return self.last(rows + self.seen)


def _with(layer: Any) -> Any:
    return lambda n_features, n_classes: nn.Sequential(nn.Linear(n_features, 4), layer, nn.Linear(4, n_classes))


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (_with(nn.BatchNorm1d(4)), "GroupNorm"),
        (_with(nn.Dropout(0.1)), "random"),
        (_with(nn.LazyLinear(4)), "lazy"),
        (Noisy, "random operations"),
        (Branching, "single record"),
        (Single, "double precision"),
        (Remembering, "single record"),
        (lambda n_features, n_classes: nn.Linear(n_features, n_classes + 1), "outputs"),
        (lambda n_features, n_classes: nn.Linear(n_features, n_classes).requires_grad_(False), "trainable"),
        (lambda n_features, n_classes: len, "nn.Module"),
    ],
)
def test_modules_that_do_not_treat_records_by_themselves_are_refused(made: Any, words: str) -> None:
    known_module("refused")(made)
    X, y = corners(30, 0)
    with pytest.raises(InvalidParameter, match=words):
        TorchClassifier("refused", epsilon=1.0, delta=1e-5).fit(federation(X, y, Exact()))


class Greedy(nn.Module):
    """Centres a batch by its mean, as a module must not: of one record, nothing is left."""

    def __init__(self, n_features: int, n_classes: int) -> None:
        super().__init__()
        self.last = nn.Linear(n_features, n_classes, bias=False)

    def forward(self, rows: Any) -> Any:
        return self.last(rows - rows.mean(0, keepdim=True))


def test_a_module_sees_one_record_at_a_time() -> None:
    known_module("greedy")(Greedy)
    X, y = corners(50, 0)
    records = labelled(X, y, bound=1.5, classes=[0, 1])
    asked = module_gradient(records.facts(), module="greedy", weights=np.ones(4), clip=1.0)
    assert not asked.total(records).any()


def test_a_record_without_a_finite_gradient_contributes_zero() -> None:
    class Root(nn.Module):
        def __init__(self, n_features: int, n_classes: int) -> None:
            super().__init__()
            self.last = nn.Linear(n_features, n_classes)

        def forward(self, rows: Any) -> Any:
            return self.last(rows.sqrt())

    known_module("root")(Root)
    X = np.random.default_rng(0).uniform(0.1, 0.9, (20, 2))
    X[7, 0] = -0.5
    y = np.arange(20) % 2
    weights = np.ones(6)

    def total(rows: Any) -> Vector:
        part = labelled(X[rows], y[rows], bound=1.5, classes=[0, 1])
        return module_gradient(part.facts(), module="root", weights=weights, clip=0.5).total(part)

    others = [k for k in range(20) if k != 7]
    np.testing.assert_allclose(total(slice(None)), total(others), atol=1e-12)
    assert not total([7]).any()


@pytest.mark.parametrize(
    "changed", [{"weights": np.zeros(3)}, {"weights": np.full(32, np.nan)}, {"clip": 0.0}, {"module": "other"}]
)
def test_what_comes_from_the_wire_is_checked(changed: dict[str, Any]) -> None:
    known_module("small")(small)
    records = labelled(np.zeros((4, 2)), [0, 1, 0, 1], bound=1.0, classes=[0, 1])
    options = {"module": "small", "weights": np.zeros(32), "clip": 1.0}
    module_gradient(records.facts(), **options)
    with pytest.raises(InvalidParameter):
        module_gradient(records.facts(), **(options | changed))


def test_names_are_new_and_responses_are_classes() -> None:
    known_module("small")(small)
    with pytest.raises(InvalidParameter, match="new"):
        known_module("small")(small)
    held = {"a": labelled(np.zeros((4, 2)), np.zeros(4), bound=1.0, response=(0, 1))}
    with pytest.raises(InvalidParameter, match="classes"):
        TorchClassifier("small", epsilon=1.0, delta=1e-5).fit(Federation(in_process(held), protocol=Independent()))


def test_torch_is_imported_only_when_it_is_used() -> None:
    code = "import sys, dpcape.estimators, dpcape.statistics; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_example_runs() -> None:
    path = Path(__file__).parents[2] / "examples" / "torch" / "small_convolution.py"
    done = subprocess.run([sys.executable, path], check=True, capture_output=True, text=True)
    assert float(done.stdout.split()[1]) > 0.95
