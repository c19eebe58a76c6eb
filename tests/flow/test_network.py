"""The network classifier and its gradient, end to end."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import logsumexp

from dpcape import Cape, Exact, Federation, Independent, NetworkClassifier, Replay, in_process, labelled
from dpcape.core.errors import InvalidParameter
from dpcape.statistics.gradients import DeepGradient, deep_gradient, layers_of, n_weights, network_gradient

Vector = NDArray[np.float64]


def gaussians(n_records: int, seed: int, width: int = 50) -> tuple[Vector, NDArray[np.int64]]:
    """Two unit Gaussians with means at distance 1 (dissertation, section 3.4)."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 2, n_records)
    X = generator.standard_normal((n_records, width)) + (labels[:, None] - 0.5) / math.sqrt(width)
    return X, labels


def fitted(model: NetworkClassifier, X: Vector, y: Any, protocol: Any, seed: int, n_sites: int = 4) -> Any:
    classes = sorted(set(y.tolist()))
    bound = math.sqrt(X.shape[1]) + 1
    records = {f"site{k}": labelled(X[k::n_sites], y[k::n_sites], bound=bound, classes=classes) for k in range(n_sites)}
    return model.fit(Federation(in_process(records, noise=Replay(seed)), protocol=protocol))


def mean_loss(hidden: Vector, output: Vector, X: Vector, codes: NDArray[np.int64], scale: float) -> float:
    active = np.maximum(scale * X @ hidden[:, :-1].T + hidden[:, -1], 0)
    logits = active @ output[:, :-1].T + output[:, -1]
    if logits.shape[1] == 1:
        return float(np.mean(np.logaddexp(0, logits[:, 0]) - codes * logits[:, 0]))
    return float(np.mean(logsumexp(logits, axis=1) - logits[np.arange(len(codes)), codes]))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_unclipped_the_statistic_is_the_gradient(n_classes: int) -> None:
    """Against central differences of the mean loss."""
    generator = np.random.default_rng(n_classes)
    X, codes = generator.uniform(-0.5, 0.5, (40, 3)), generator.integers(0, n_classes, 40)
    records = labelled(X, codes, bound=2.0, classes=list(range(n_classes)))
    layers = [generator.standard_normal((4, 4)), generator.standard_normal((1 if n_classes == 2 else n_classes, 5))]
    statistic = network_gradient(records.facts(), hidden=layers[0], output=layers[1], clip=1e6, input_scale=1.3)
    found = statistic.total(records) / 40
    flat = np.concatenate([layer.ravel() for layer in layers])
    wanted = np.empty_like(flat)
    for position in range(flat.size):
        values = []
        for step in (1e-6, -1e-6):
            moved = flat.copy()
            moved[position] += step
            hidden, output = moved[: layers[0].size].reshape(layers[0].shape), moved[layers[0].size :]
            values.append(mean_loss(hidden, output.reshape(layers[1].shape), X, codes, 1.3))
        wanted[position] = (values[0] - values[1]) / 2e-6
    # Gradients are on a grid of 2^20 steps.
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def deep_loss(weights: Vector, widths: tuple[int, ...], X: Vector, codes: NDArray[np.int64], scale: float) -> float:
    *hidden, output = layers_of(weights, widths)
    active = scale * X
    for layer in hidden:
        active = np.maximum(active @ layer[:, :-1].T + layer[:, -1], 0)
    logits = active @ output[:, :-1].T + output[:, -1]
    if logits.shape[1] == 1:
        return float(np.mean(np.logaddexp(0, logits[:, 0]) - codes * logits[:, 0]))
    return float(np.mean(logsumexp(logits, axis=1) - logits[np.arange(len(codes)), codes]))


@pytest.mark.parametrize("widths", [(3, 4, 3, 1), (3, 2, 4, 3, 3)])
def test_the_gradient_of_several_layers_against_central_differences(widths: tuple[int, ...]) -> None:
    generator = np.random.default_rng(len(widths))
    n_classes = max(2, widths[-1])
    X, codes = generator.uniform(-0.5, 0.5, (40, 3)), generator.integers(0, n_classes, 40)
    records = labelled(X, codes, bound=2.0, classes=list(range(n_classes)))
    weights = generator.standard_normal(n_weights(widths))
    asked = deep_gradient(records.facts(), widths=widths[1:-1], weights=weights, clip=100.0, input_scale=1.3)
    steps = 1e-6 * np.eye(weights.size)
    wanted = [
        (deep_loss(weights + step, widths, X, codes, 1.3) - deep_loss(weights - step, widths, X, codes, 1.3)) / 2e-6
        for step in steps
    ]
    np.testing.assert_allclose(asked.total(records) / 40, wanted, atol=1e-4)


def test_one_of_several_layers_is_the_network_with_one_hidden_layer() -> None:
    generator = np.random.default_rng(1)
    records = labelled(generator.uniform(-1, 1, (50, 3)), np.arange(50) % 3, bound=2.0, classes=[0, 1, 2])
    weights = generator.standard_normal(n_weights((3, 4, 3)))
    hidden, output = layers_of(weights, (3, 4, 3))
    deep = deep_gradient(records.facts(), widths=[4], weights=weights, clip=0.3, input_scale=1.0)
    plain = network_gradient(records.facts(), hidden=hidden, output=output, clip=0.3, input_scale=1.0)
    np.testing.assert_array_equal(deep.total(records), plain.total(records))


@pytest.mark.parametrize("layers", ["one", "several"])
def test_clipping_equals_a_loop_over_records(layers: str) -> None:
    generator = np.random.default_rng(0)
    X, codes = generator.uniform(-1, 1, (60, 3)), generator.integers(0, 3, 60)
    one = {"hidden": generator.standard_normal((4, 4)), "output": generator.standard_normal((3, 5))}
    several = {"widths": [4, 2, 3], "weights": generator.standard_normal(n_weights((3, 4, 2, 3, 3)))}

    def total(rows: Any, clip: float) -> Vector:
        part = labelled(X[rows], codes[rows], bound=2.0, classes=[0, 1, 2])
        ask, weights = (network_gradient, one) if layers == "one" else (deep_gradient, several)
        return ask(part.facts(), clip=clip, input_scale=1.0, **weights).total(part)

    single = np.array([total(slice(k, k + 1), 100.0) for k in range(60)])
    lengths = np.linalg.norm(single, axis=1, keepdims=True)
    clip = float(np.median(lengths))
    wanted = (single * np.minimum(1, clip / np.maximum(lengths, 1e-300))).sum(axis=0)
    np.testing.assert_allclose(total(slice(None), clip), wanted, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize(
    "changed",
    [
        {"hidden": np.zeros((4, 3))},
        {"hidden": np.full((4, 4), np.nan)},
        {"hidden": np.full((4, 4), 1e7)},
        {"output": np.zeros((2, 5))},
        {"hidden": np.zeros((4, 4), dtype=np.float32)},
        {"clip": 0.0},
        {"clip": math.nan},
        {"input_scale": -1.0},
    ],
)
def test_weights_from_the_wire_are_checked(changed: dict[str, Any]) -> None:
    records = labelled(np.zeros((4, 3)), [0, 1, 0, 1], bound=1.0, classes=[0, 1])
    options = {"hidden": np.zeros((4, 4)), "output": np.zeros((1, 5)), "clip": 1.0, "input_scale": 1.0}
    with pytest.raises(InvalidParameter):
        network_gradient(records.facts(), **(options | changed))


@pytest.mark.parametrize(
    "changed",
    [
        {"widths": np.array([4.0, 2.0])},
        {"widths": np.array([4, 0])},
        {"widths": np.array([], dtype=np.int64)},
        {"widths": np.full(9, 2)},
        {"widths": np.array([2, 4])},
        {"weights": np.zeros(27)},
        {"weights": np.full(29, np.inf)},
        {"weights": np.full(29, -1e7)},
        {"weights": np.zeros(29, dtype=np.float32)},
        {"clip": -1.0},
    ],
)
def test_several_layers_from_the_wire_are_checked(changed: dict[str, Any]) -> None:
    records = labelled(np.zeros((4, 3)), [0, 1, 0, 1], bound=1.0, classes=[0, 1])
    options = {"widths": np.array([4, 2]), "weights": np.zeros(29), "clip": 1.0, "input_scale": 1.0}
    DeepGradient(records.facts(), **options)
    with pytest.raises(InvalidParameter):
        DeepGradient(records.facts(), **(options | changed))


def test_the_largest_weights_of_the_most_layers_still_give_finite_totals() -> None:
    records = labelled(np.full((6, 3), 1e40), [0, 1, 2] * 2, bound=1e40, classes=[0, 1, 2])
    weights = np.full(n_weights((3, *[50] * 8, 3)), 1e6)
    weights[-153:] *= np.tile([1, -1, 0.5], 51)
    asked = deep_gradient(records.facts(), widths=[50] * 8, weights=weights, clip=1.0, input_scale=0.9e-31)
    total = asked.total(records)
    assert np.isfinite(total).all()
    assert 0 < np.linalg.norm(total) <= 6


def test_the_largest_weights_still_give_finite_totals() -> None:
    records = labelled(np.full((6, 3), 1e40), [0, 1, 2] * 2, bound=1e40, classes=[0, 1, 2])
    statistic = network_gradient(
        records.facts(),
        hidden=np.full((4, 4), 1e6),
        output=np.full((3, 5), -1e6),
        clip=1.0,
        input_scale=1e-40,
    )
    assert np.isfinite(statistic.total(records)).all()


def test_rounds_are_declared_and_composed() -> None:
    X, y = gaussians(400, 0, width=5)
    model = fitted(NetworkClassifier(4, epsilon=1.0, delta=1e-5, n_iter=6), X, y, Cape(n_colluding=1), 0)
    assert model.guarantee_.releases == 6
    assert model.guarantee_.epsilon <= 1.0
    mus = [release.mus["site0"] for release in model.releases_]
    assert math.sqrt(sum(mu**2 for mu in mus)) == pytest.approx(model.guarantee_.mu, rel=1e-6)


def test_several_classes_are_told_apart() -> None:
    generator = np.random.default_rng(0)
    y = generator.integers(0, 3, 3000)
    X = generator.normal(0, 0.2, (3000, 2)) + np.array([[1, 0], [-0.5, 0.9], [-0.5, -0.9]])[y]
    model = fitted(NetworkClassifier(12, epsilon=3.0, delta=1e-5, n_iter=30), X, y, Cape(n_colluding=1), 0)
    assert model.score(X, y) > 0.95
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    assert model.classes_.tolist() == [0, 1, 2]


def test_several_hidden_layers_learn_what_none_cannot() -> None:
    """Four corners, opposite ones alike: linear classifiers guess."""
    generator = np.random.default_rng(3)
    X = generator.uniform(-1, 1, (6000, 2))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    deep = fitted(NetworkClassifier((12, 8), epsilon=8.0, delta=1e-5, n_iter=60), X, y, Cape(n_colluding=1), 0)
    assert deep.score(X, y) > 0.9
    assert [layer.shape for layer in deep.layers_] == [(12, 3), (8, 13), (1, 9)]
    assert deep.inner_.shape == (8 * 13,)


@pytest.mark.parametrize("n_hidden", [0, 3, (3, 2), [3, 2, 4]])
def test_a_network_travels_and_is_reproducible(n_hidden: Any, tmp_path: Any) -> None:
    X, y = gaussians(300, 1, width=4)
    model = fitted(NetworkClassifier(n_hidden, epsilon=2.0, delta=1e-5, n_iter=4), X, y, Independent(), 5)
    again = fitted(NetworkClassifier(n_hidden, epsilon=2.0, delta=1e-5, n_iter=4), X, y, Independent(), 5)
    for ours, theirs in zip(model.layers_, again.layers_, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    model.save(tmp_path / "network.npz")
    loaded = NetworkClassifier.load(tmp_path / "network.npz")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_without_noise_the_network_learns() -> None:
    X, y = gaussians(4000, 2)
    model = fitted(NetworkClassifier(20, epsilon=1.0, delta=1e-5), X, y, Exact(), 0)
    test, truth = gaussians(4000, 999)
    assert model.score(test, truth) > 0.66


@pytest.mark.parametrize(
    "options",
    [
        {"n_iter": 0},
        {"n_hidden": 2.5},
        {"n_hidden": ()},
        {"n_hidden": (4, 0)},
        {"n_hidden": (4, True)},
        {"n_hidden": (2,) * 9},
        {"n_hidden": "20"},
        {"learning_rate": -1.0},
        {"clip": 0.0},
    ],
)
def test_parameters_without_meaning_are_refused(options: dict[str, Any]) -> None:
    X, y = gaussians(40, 0, width=3)
    with pytest.raises(InvalidParameter):
        fitted(NetworkClassifier(epsilon=1.0, delta=1e-5, **options), X, y, Independent(), 0)


def test_a_numeric_response_is_refused() -> None:
    records = {"a": labelled(np.zeros((4, 2)), np.zeros(4), bound=1.0, response=(0, 1))}
    with pytest.raises(InvalidParameter, match="classes"):
        NetworkClassifier(epsilon=1.0, delta=1e-5).fit(Federation(in_process(records), protocol=Independent()))


@pytest.mark.slow
def test_cape_against_conventional_on_the_papers_data() -> None:
    """Twenty seeds: within two standard errors or better everywhere, strictly better up to epsilon 1."""
    test, truth = gaussians(10_000, 999)
    for epsilon in (0.1, 0.5, 1.0, 3.0, 10.0):
        scores: dict[str, Vector] = {}
        for name, protocol in (("cape", Cape(n_colluding=1)), ("conventional", Independent())):
            runs = []
            for seed in range(20):
                X, y = gaussians(10_000, seed)
                model = NetworkClassifier(20, epsilon=epsilon, delta=1e-5, random_state=seed)
                runs.append(fitted(model, X, y, protocol, seed).score(test, truth))
            scores[name] = np.array(runs)
        gain = scores["cape"] - scores["conventional"]
        assert gain.mean() >= -2 * gain.std(ddof=1) / math.sqrt(20)
        if epsilon <= 1:
            assert gain.mean() > 0
        if epsilon == 0.5:
            assert scores["cape"].mean() >= 0.66
