"""Contests: a data set, a measure, and methods that return the measure of one run."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from experiments.league import rivals
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.cluster import KMeans as PlainKMeans
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits

import dpcape
from dpcape import Federation, Independent, Replay, documents, in_process, labelled, rows, subjects, views
from dpcape.core.errors import UtilityWarning
from dpcape.core.privacy.gaussian import mu_of
from dpcape.datasets import sources
from dpcape.metrics import captured_ratio, gain_index, log_loss, match_components, squared_loss
from dpcape_papers.data import regression as prepared
from dpcape_papers.experiments.data import DataFolder
from dpcape_papers.figures.tensor import simulated
from dpcape_papers.published import tensor as published
from dpcape_papers.published.cca import canonical_directions

Array = NDArray[np.float64]
Method = Callable[[float, int], float]
"""From epsilon and seed to the measure of one run."""


@dataclass(frozen=True)
class Contest:
    """One data set and measure.

    Attributes
    ----------
    analysis, data, measure : str
        In words.
    higher : bool
        Whether a higher measure is better.
    delta : float
        Of all methods.
    epsilons : tuple of float
        Where methods are compared.
    methods : dict
        By name; names of dpcape's begin with "dpcape".
    limit : float
        The measure without privacy.
    exchange : dict
        Arrays and settings for peers in environments of their own; empty if none takes part.
    """

    analysis: str
    data: str
    measure: str
    higher: bool
    delta: float
    epsilons: tuple[float, ...]
    methods: dict[str, Method]
    limit: float
    exchange: dict[str, Any] = field(default_factory=dict)


def fitted(model: Any, held: Any, seed: int) -> Any:
    """Fit for one holder of all records, with replayable noise."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UtilityWarning)
        return model.fit(
            Federation(in_process({"one": held}, noise=Replay(seed)), protocol=Independent(), accept_large_delta=True)
        )


def rival(run: Callable[[float, np.random.Generator], float], delta: float) -> Method:
    """Return a method that is given the exact mu and a generator."""
    return lambda epsilon, seed: run(mu_of(epsilon, delta), np.random.default_rng([seed, 7]))


def mean_contest(width: int, n_records: int, spread: float, seed: int) -> Contest:
    rng = np.random.default_rng(seed)
    centre = rng.standard_normal(width)
    centre *= 0.4 / np.linalg.norm(centre)
    X = centre + spread * rng.standard_normal((n_records, width))
    bound, delta, truth = 1.0, 1e-5, X.mean(axis=0)
    held = rows(X, bound=bound)

    def error(found: Array) -> float:
        return float(np.linalg.norm(found - truth))

    def ours(epsilon: float, run: int, **options: Any) -> float:
        return error(fitted(dpcape.Mean(epsilon=epsilon, delta=delta, **options), held, run).mean_)

    methods: dict[str, Method] = {
        "dpcape Mean": ours,
        "dpcape, recentred": partial(ours, recentre=True),
        "Gaussian mechanism": rival(lambda mu, source: error(rivals.gaussian_mean(X, bound, mu, source)), delta),
        "CoinPress (variance known)": rival(
            lambda mu, source: error(rivals.coinpress_mean(X, bound, mu, source, variance=spread**2)), delta
        ),
    }
    name = f"simulated, {width} columns, N {n_records:,}, sd {spread:g} in a ball of 1"
    return Contest("mean", name, "distance to the sample mean", False, delta, (0.1, 0.3, 1.0), methods, 0.0)


def pca_contest(name: str, X: Array, n: int) -> Contest:
    """Rows are scaled to length 1 at most by a public number."""
    delta, moment = 1e-5, X.T @ X / len(X)
    held = rows(X, bound=1.0)

    def ours(epsilon: float, run: int) -> float:
        return captured_ratio(fitted(dpcape.PCA(n, epsilon=epsilon, delta=delta), held, run).components_, moment)

    def other(method: Callable[..., Array]) -> Method:
        return rival(lambda mu, source: captured_ratio(method(X, n, mu, source), moment), delta)

    methods = {
        "dpcape PCA": ours,
        "Analyze Gauss": other(rivals.analyze_gauss),
        "power / Oja (subspace iteration)": other(rivals.subspace_iteration),
        "capePCA's directions as published": other(rivals.as_published_pca),
    }
    exchange = {"kind": "pca", "X": X, "n": n, "moment": moment}
    return Contest(
        "PCA", name, f"share of the energy of {n} directions", True, delta, (0.1, 0.3, 1.0), methods, 1.0, exchange
    )


def low_rank(width: int, n_records: int, seed: int) -> Array:
    """Return rows of which five directions hold most of the variance, at most 1 long."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((width, width)))[0]
    spread = np.concatenate([np.sqrt([0.2, 0.15, 0.1, 0.08, 0.07]), np.full(width - 5, math.sqrt(0.4 / (width - 5)))])
    return rivals.shortened(0.8 * (rng.standard_normal((n_records, width)) * spread) @ basis.T, 1.0)


def digit_rows() -> Array:
    """Return the digits of scikit-learn, divided by a public length: 64 pixels of 0 to 16, half of them inked."""
    return rivals.shortened(load_digits().data / (16 * math.sqrt(32)), 1.0)


def two_views(n_records: int, seed: int) -> tuple[Array, Array]:
    """Return two views of 20 columns with correlations .9, .7 and .5."""
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((n_records, 20)), rng.standard_normal((n_records, 20))
    for column, value in enumerate((0.9, 0.7, 0.5)):
        y[:, column] = value * x[:, column] + math.sqrt(1 - value**2) * y[:, column]
    turns = [np.linalg.qr(rng.standard_normal((20, 20)))[0] for _ in range(2)]
    return x @ turns[0] / 6, y @ turns[1] / 6


def cca_contest(name: str, x: Array, y: Array, n: int, bounds: tuple[float, float]) -> Contest:
    delta = 1e-5
    x, y = rivals.shortened(x, bounds[0]), rivals.shortened(y, bounds[1])
    held = views(x, y, bounds=bounds)
    both = np.hstack([x / bounds[0], y / bounds[1]])
    moment, width = both.T @ both / len(both), x.shape[1]

    def kept(u: Array, v: Array) -> float:
        """Return the sum of the correlations of the projections, over what is best."""
        bases = [np.linalg.qr(x @ u)[0], np.linalg.qr(y @ v)[0]]
        return float(np.linalg.svd(bases[0].T @ bases[1], compute_uv=False).sum())

    whole = [np.linalg.qr(x)[0], np.linalg.qr(y)[0]]
    best = float(np.linalg.svd(whole[0].T @ whole[1], compute_uv=False)[:n].sum())

    def ours(epsilon: float, run: int) -> float:
        model = fitted(dpcape.CCA(n, epsilon=epsilon, delta=delta), held, run)
        return kept(model.x_weights_, model.y_weights_) / best

    def plain(mu: float, source: np.random.Generator) -> float:
        """Joint rows are at most sqrt(2) long: diameter 2 sqrt(2)."""
        noise = rivals.symmetric_noise(source, len(moment), 2 * math.sqrt(2) / (mu * len(both)))
        return kept(*canonical_directions(moment + noise, width, n)) / best

    def ridged(mu: float, source: np.random.Generator) -> float:
        """Whiten with a ridge of the noise's operator norm, a usual remedy."""
        scale = 2 * math.sqrt(2) / (mu * len(both))
        noisy = moment + rivals.symmetric_noise(source, len(moment), scale)
        ridge = 2 * scale * math.sqrt(width)
        roots = []
        for block in (noisy[:width, :width], noisy[width:, width:]):
            values, vectors = np.linalg.eigh(block)
            roots.append((vectors / np.sqrt(np.maximum(values, 0.0) + ridge)) @ vectors.T)
        left, _, right = np.linalg.svd(roots[0] @ noisy[:width, width:] @ roots[1])
        return kept(roots[0] @ left[:, :n], roots[1] @ right[:n].T) / best

    methods = {
        "dpcape CCA": ours,
        "DP-CCA as published, exact noise": rival(plain, delta),
        "Analyze Gauss with a ridge": rival(ridged, delta),
    }
    return Contest(
        "CCA", name, f"share of the sum of {n} correlations", True, delta, (0.1, 0.3, 1.0, 3.0), methods, 1.0
    )


def linear_contest(
    name: str,
    X: Array,
    y: Array,
    bound: float,
    response: tuple[float, float],
    delta: float,
    epsilons: tuple[float, ...],
    test: tuple[Array, Array] | None = None,
) -> Contest:
    """Losses are of clipped rows, in the units of the response; of new records if there are any."""
    low, high = response
    middle, half = (low + high) / 2, (high - low) / 2
    y = np.clip(y, low, high)
    held = labelled(X, y, bound=bound, response=response)
    shown, wanted = (X, y) if test is None else test

    def design(block: Array) -> Array:
        """Return rows of length 1 at most, with a constant of half the bound."""
        return np.column_stack([np.full(len(block), 0.5), rivals.shortened(block, bound) / bound]) / math.sqrt(1.25)

    train, seen, mapped = design(X), design(shown), (y - middle) / half

    def loss(coefficients: Array) -> float:
        return squared_loss(wanted, middle + half * np.clip(seen @ coefficients, -3, 3))

    def ours(epsilon: float, run: int, **options: Any) -> float:
        model = fitted(
            dpcape.LinearRegression(epsilon=epsilon, delta=delta, purpose="prediction", **options), held, run
        )
        return squared_loss(wanted, model.predict(rivals.shortened(shown, bound)))

    best = np.linalg.lstsq(train, mapped, rcond=None)[0]
    methods: dict[str, Method] = {
        "dpcape LinearRegression": ours,
        "dpcape, private scaling": partial(ours, scale="private"),
        "dpcape, one moment (CAPE-FM, exact noise)": partial(ours, n_iter=0),
        "AdaSSP": rival(lambda mu, source: loss(rivals.adassp(train, mapped, mu, source)), delta),
        "DP-GD": rival(
            lambda mu, source: loss(rivals.gradient_descent(train, mapped, mu, source, kind="linear")), delta
        ),
        "constant": lambda epsilon, run: float(np.var(wanted)),
    }
    exchange = {
        "kind": "linear",
        "X": train,
        "y": mapped,
        "seen": seen,
        "wanted": (wanted - middle) / half,
        "half": half,
    }
    return Contest(
        "linear regression", name, "mean squared loss", False, delta, epsilons, methods, loss(best), exchange
    )


def simulated_linear(seed: int, n_records: int = 20_000, width: int = 50) -> tuple[Array, Array]:
    """Return features and responses with residual variance .0025."""
    rng = np.random.default_rng(seed)
    beta = rng.standard_normal(width)
    X = rng.standard_normal((n_records, width)) / (1.2 * math.sqrt(width))
    signal = X @ (beta / np.linalg.norm(beta))
    return X, np.clip(0.17 * signal / signal.std() + 0.05 * rng.standard_normal(n_records), -1, 1)


def logistic_contest(
    name: str, X: Array, labels: Array, bound: float, delta: float, epsilons: tuple[float, ...]
) -> Contest:
    held = labelled(X, labels, bound=bound, classes=[0, 1])
    clipped = rivals.shortened(X, bound)
    train = np.column_stack([np.full(len(X), 0.5), clipped / bound]) / math.sqrt(1.25)

    def loss(coefficients: Array) -> float:
        odds = train @ coefficients
        return float(np.mean(np.logaddexp(0, odds) - labels * odds))

    def ours(epsilon: float, run: int, **options: Any) -> float:
        made = dpcape.LogisticRegression(epsilon=epsilon, delta=delta, purpose="prediction", **options)
        return log_loss(labels.astype(int), fitted(made, held, run).predict_proba(clipped))

    from sklearn.linear_model import LogisticRegression as Plain

    plain = Plain(C=1e4, max_iter=2000).fit(train, labels)
    limit = log_loss(labels.astype(int), plain.predict_proba(train))
    methods: dict[str, Method] = {
        "dpcape LogisticRegression": ours,
        "dpcape, one moment (CAPE-FM, exact noise)": partial(ours, n_iter=0),
        "DP-GD": rival(
            lambda mu, source: loss(rivals.gradient_descent(train, labels, mu, source, kind="logistic")), delta
        ),
        "objective perturbation (Gaussian)": lambda epsilon, run: loss(
            rivals.objective_perturbation(train, labels, epsilon, delta, np.random.default_rng([run, 7]))
        ),
    }
    exchange = {"kind": "logistic", "X": train, "y": labels.astype(int)}
    return Contest("logistic regression", name, "log-loss", False, delta, epsilons, methods, limit, exchange)


def mixture_contest(width: int, n: int, variance: float, seed: int, n_records: int) -> Contest:
    rng = np.random.default_rng(seed)
    means = rng.standard_normal((n, width))
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    weights = rng.uniform(0.5, 1.5, n)
    which = rng.choice(n, n_records, p=weights / weights.sum())
    X = means[which] + math.sqrt(variance) * rng.standard_normal((n_records, width))
    bound, delta = 1 + math.sqrt(variance * width), 1e-5
    held = rows(X, bound=bound)

    def error(found: Array) -> float:
        return float(np.linalg.norm(found[match_components(found, means)] - means, axis=1).mean())

    def ours(epsilon: float, run: int) -> float:
        made = dpcape.MixtureModel(n, epsilon=epsilon, delta=delta, noise_variance=variance)
        return error(fitted(made, held, run).means_)

    moments = published.mixture_moments(X / bound, variance / bound**2)
    true = published.true_sensitivities("mixture", width, variance / bound**2)

    def tensor(mu: float, source: np.random.Generator) -> float:
        second, third = (value * math.sqrt(2) / (mu * n_records) for value in true)
        noise = published.AgnNoise(second, third, 0.0, delta, 0.0, 0.0, 0.0)
        return error(bound * published.mixture_means(*published.agn(moments, n, noise=noise, rng=source)))

    methods = {
        "dpcape MixtureModel": ours,
        "DP-EM": rival(lambda mu, source: error(rivals.em_mixture(X, n, bound, variance, mu, source)), delta),
        "capeAGN as published, exact noise": rival(tensor, delta),
    }
    exact = published.mixture_means(*published.agn(moments, n, noise=None, rng=rng))
    name = f"simulated, {width} columns, {n} components, variance {variance:g}, N {n_records:,}"
    return Contest(
        "mixture model",
        name,
        "mean distance of matched means",
        False,
        delta,
        (0.1, 0.3, 1.0),
        methods,
        error(bound * exact),
    )


def topic_contest(width: int, n: int, seed: int, n_records: int) -> Contest:
    counts, truth = simulated.topics(width, n, seed, n_records=n_records)
    delta = 1e-5
    held, words = documents(csr_array(counts)), counts.toarray().astype(float)

    def error(found: Array) -> float:
        return float(np.linalg.norm(found[match_components(found, truth)] - truth, axis=1).mean())

    def ours(epsilon: float, run: int) -> float:
        return error(fitted(dpcape.TopicModel(n, epsilon=epsilon, delta=delta), held, run).topics_)

    moments = published.word_moments(simulated.in_order(counts, seed), width)
    true = published.true_sensitivities("topics", width)

    def tensor(mu: float, source: np.random.Generator) -> float:
        second, third = (value * math.sqrt(2) / (mu * n_records) for value in true)
        noise = published.AgnNoise(second, third, 0.0, delta, 0.0, 0.0, 0.0)
        return error(published.topic_vectors(published.agn(moments, n, noise=noise, rng=source)[1]))

    methods = {
        "dpcape TopicModel": ours,
        "DP-EM": rival(lambda mu, source: error(rivals.em_topics(words, n, mu, source)), delta),
        "capeAGN as published, symmetrised, exact noise": rival(tensor, delta),
    }
    exact = published.topic_vectors(published.agn(moments, n, noise=None, rng=np.random.default_rng(0))[1])
    name = f"simulated, {width} words, {n} topics, N {n_records:,}"
    return Contest(
        "topic model", name, "mean distance of matched topics", False, delta, (0.1, 0.3, 1.0), methods, error(exact)
    )


def cluster_contest(name: str, X: Array, n: int, bound: float) -> Contest:
    delta = 1e-5
    held = rows(X, bound=bound)

    def distance(centres: Array) -> float:
        return float(np.mean(np.min((centres**2).sum(axis=1) - 2 * X @ centres.T, axis=1) + (X**2).sum(axis=1)))

    sample = np.random.default_rng(0).permutation(X)[:10_000]
    own = PlainKMeans(n, n_init=5, random_state=0).fit(sample).cluster_centers_
    best = distance(PlainKMeans(n, init=own, n_init=1, max_iter=50).fit(X).cluster_centers_)
    one = distance(X.mean(axis=0, keepdims=True))

    def gain(centres: Array) -> float:
        return (one - distance(centres)) / (one - best)

    def ours(epsilon: float, run: int) -> float:
        return gain(fitted(dpcape.KMeans(n, epsilon=epsilon, delta=delta), held, run).cluster_centers_)

    methods = {
        "dpcape KMeans": ours,
        "DP-Lloyd": rival(lambda mu, source: gain(rivals.lloyd(X, n, bound, mu, source)), delta),
    }
    exchange = {"kind": "kmeans", "X": X, "n": n, "one": one, "best": best, "bound": bound}
    return Contest(
        "k-means", name, "share of the gain without privacy", True, delta, (0.1, 0.3, 1.0, 3.0), methods, 1.0, exchange
    )


def separated(width: int, n: int, seed: int, n_records: int = 20_000) -> Array:
    """Return separated clusters of unequal sizes in the ball of radius 1."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((n, width))
    centres *= (0.8 * rng.uniform(size=n) ** (1 / width) / np.linalg.norm(centres, axis=1))[:, None]
    weights = rng.uniform(0.5, 1.5, n)
    which = rng.choice(n, n_records, p=weights / weights.sum())
    return centres[which] + 0.15 / math.sqrt(width) * rng.standard_normal((n_records, width))


def ica_contest(kind: str, n: int, n_subjects: int, seed: int) -> Contest:
    """Time points are records; sources in as many columns as components."""
    rng = np.random.default_rng(seed)
    mixing = np.linalg.qr(rng.standard_normal((n, n)))[0]
    made = sources(rng, n_subjects=n_subjects, n_components=n, n_timepoints=200, kind=kind)
    held = subjects([series @ mixing.T for series in made], bound=1.5 * math.sqrt(n), unit="record")
    delta = 1e-5

    def ours(epsilon: float, run: int, **options: Any) -> float:
        made = dpcape.JointICA(n, epsilon=epsilon, delta=delta, basis=np.eye(n), **options)
        return gain_index(fitted(made, held, run).unmixing_, mixing)

    methods: dict[str, Method] = {
        "dpcape JointICA": ours,
        "CAPE-djICA's rounds (infomax), exact accounting": partial(ours, solver="infomax"),
    }
    name = f"simulated {kind} sources, {n} components, N {200 * n_subjects:,} time points"
    return Contest("joint ICA", name, "q_NGI", False, delta, (0.3, 1.0, 3.0), methods, 0.0)


def classifier_contest(
    name: str, X: Array, labels: Array, test: tuple[Array, Array], bound: float, epsilons: tuple[float, ...]
) -> Contest:
    """Linear classifiers of images; accuracy on images that were not fitted."""
    delta, classes = 1e-5, [int(value) for value in np.unique(labels)]
    held = labelled(X, labels, bound=bound, classes=classes)
    clipped = rivals.shortened(test[0], bound)

    def ours(epsilon: float, run: int, **options: Any) -> float:
        return float(
            fitted(dpcape.NetworkClassifier(epsilon=epsilon, delta=delta, **options), held, run).score(clipped, test[1])
        )

    from sklearn.linear_model import LogisticRegression as Plain

    limit = float(Plain(max_iter=300).fit(X[:10_000], labels[:10_000]).score(test[0], test[1]))
    methods: dict[str, Method] = {
        "dpcape NetworkClassifier": ours,
        "dpcape NetworkClassifier, n_hidden=0": partial(ours, n_hidden=0),
    }
    exchange = {
        "kind": "classes",
        "X": rivals.shortened(X, bound) / bound,
        "y": labels,
        "seen": clipped / bound,
        "wanted": test[1],
    }
    return Contest("classification", name, "accuracy on new images", True, delta, epsilons, methods, limit, exchange)


def bundled(*, quick: bool) -> Iterator[Contest]:
    """Yield the contests that need no data folder: simulated records, and data sets of scikit-learn."""
    size = 4 if quick else 1
    yield mean_contest(50, 5000, 0.05, 1)
    yield mean_contest(10, 5000, 0.2, 2)
    yield pca_contest("simulated, 50 columns, N 20,000", low_rank(50, 20_000 // size, 3), 5)
    yield pca_contest("digits (scikit-learn), 64 columns, N 1,797", digit_rows(), 5)
    yield cca_contest("simulated, 20 + 20 columns, N 20,000", *two_views(20_000 // size, 4), 3, (1.0, 1.0))
    X, y = simulated_linear(5, 40_000 // size)
    half = len(y) // 2
    yield linear_contest(
        "simulated, 50 columns, N 20,000", X[:half], y[:half], 1.0, (-1, 1), 1e-5, (0.1, 0.3, 1.0), (X[half:], y[half:])
    )
    table = load_diabetes()
    # Features of scikit-learn's file have squared norm 1 over its 442 people: about .048 each.
    yield linear_contest(
        "diabetes (scikit-learn), 10 columns, N 442", table.data, table.target, 0.2, (0, 350), 1e-3, (0.3, 1.0, 3.0)
    )
    study = prepared.logistic(20, 20_000 // size, seed=6)
    yield logistic_contest(
        "simulated, 20 columns, N 20,000",
        study.features,
        study.target.astype(float),
        study.bound,
        1e-5,
        (0.1, 0.3, 1.0),
    )
    cancer = load_breast_cancer()
    # Columns are divided by three times their documented mean, rounded.
    features = (
        cancer.data
        / (
            3
            * np.array(
                [
                    14,
                    19,
                    92,
                    655,
                    0.1,
                    0.1,
                    0.09,
                    0.05,
                    0.18,
                    0.06,
                    0.4,
                    1.2,
                    2.9,
                    40,
                    0.007,
                    0.025,
                    0.03,
                    0.012,
                    0.02,
                    0.004,
                    16,
                    26,
                    107,
                    880,
                    0.13,
                    0.25,
                    0.27,
                    0.11,
                    0.29,
                    0.08,
                ]
            )
        )
        - 1 / 3
    )
    yield logistic_contest(
        "breast cancer (scikit-learn), 30 columns, N 569",
        features,
        cancer.target.astype(float),
        1.5,
        1e-3,
        (0.3, 1.0, 3.0),
    )
    yield mixture_contest(10, 5, 0.05, 7, 100_000 // size)
    if not quick:
        yield mixture_contest(50, 10, 0.05, 8, 100_000)
    yield topic_contest(10, 5, 9, 100_000 // size)
    if not quick:
        yield topic_contest(50, 10, 10, 100_000)
    yield cluster_contest("simulated, 20 columns, 5 clusters, N 20,000", separated(20, 5, 11, 20_000 // size), 5, 1.0)
    yield cluster_contest("simulated, 5 columns, 5 clusters, N 20,000", separated(5, 5, 12, 20_000 // size), 5, 1.0)
    yield ica_contest("laplace", 5, 100, 13)
    yield ica_contest("garch", 5, 100, 14)
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(15).permutation(len(labels))
    fit, new = order[:1400], order[1400:]
    images = images / 16
    yield classifier_contest(
        "digits (scikit-learn), 64 columns, N 1,400",
        images[fit],
        labels[fit],
        (images[new], labels[new]),
        5.0,
        (1.0, 3.0),
    )


def from_folder(folder: DataFolder) -> Iterator[Contest]:
    """Yield the contests on data sets of a folder."""
    for name, study, epsilons in (
        ("Communities and Crime, 99 columns, N 1,994", prepared.crime(folder), (0.3, 1.0)),
        ("ABIDE age, 45 columns, N 833", prepared.abide(folder), (1.0, 10.0)),
        ("BlogFeedback, 80 columns, N 7,624", prepared.blog(folder), (0.3, 1.0, 3.0, 10.0)),
    ):
        yield linear_contest(name, study.features, study.target, study.bound, study.options["response"], 1e-3, epsilons)
    cover = prepared.covertype(folder, binary=True)
    chosen = np.random.default_rng(0).choice(len(cover.target), 20_000, replace=False)
    yield logistic_contest(
        "Covertype, 54 columns, N 20,000",
        cover.features[chosen],
        cover.target[chosen].astype(float),
        cover.bound,
        1e-5,
        (0.1, 0.3, 1.0),
    )
    stored = np.load(folder.file("mnist.npz"))

    def small(images: NDArray[np.uint8]) -> Array:
        return (images.reshape(-1, 14, 2, 14, 2) / 255.0).mean(axis=(2, 4)).reshape(len(images), -1)

    train, test = small(stored["X_train"]), small(stored["X_test"])
    yield pca_contest("MNIST 14 x 14, 196 columns, N 60,000", rivals.shortened(train / 7, 1.0), 10)
    yield cluster_contest("MNIST 14 x 14, 196 columns, N 60,000", train, 10, 14.0)
    labels = stored["y_train"].astype(int), stored["y_test"].astype(int)
    yield classifier_contest("MNIST 14 x 14, 196 columns, N 60,000", train, labels[0], (test, labels[1]), 5.0, (1.0,))
    table = np.load(folder.file("mfeat_digits_6view.npz"))
    # Karhunen-Loeve coefficients and Fourier coefficients have documented ranges of about -20 to 20 and 0 to 1.
    x, y = table["kar"] / 20, table["fou"][:, :30] - 0.3
    yield cca_contest(
        "Multiple Features (Karhunen-Loeve, Fourier), 30 + 30 columns, N 2,000", x[:, :30], y, 5, (1.0, 1.0)
    )
