"""Regressions and classifiers across five clinics, on synthetic records.

Run as ``python examples/regression.py``. Bounds and ranges are agreed before anybody looks at records.
"""

import numpy as np

from dpcape import (
    Cape,
    Federation,
    KMeans,
    LinearRegression,
    LogisticRegression,
    NetworkClassifier,
    PolynomialLoss,
    in_process,
    labelled,
    rows,
)

CLINICS = ("lyon", "oslo", "lima", "kyiv", "pune")
RANGES = {"age": (20, 90), "weight": (40, 140), "dose": (0, 10)}
generator = np.random.default_rng(0)


def patients(n_records: int) -> dict[str, np.ndarray]:
    return {
        "age": generator.uniform(25, 85, n_records),
        "weight": generator.normal(75, 12, n_records),
        "dose": generator.uniform(0, 10, n_records),
    }


def prepared(columns: dict[str, np.ndarray]) -> np.ndarray:
    """Map columns to [-1, 1] by the public ranges, as the clinics do."""
    middles = np.array([(low + high) / 2 for low, high in RANGES.values()])
    halves = np.array([(high - low) / 2 for low, high in RANGES.values()])
    return (np.column_stack(list(columns.values())) - middles) / halves


def federation(make) -> Federation:
    return Federation(in_process({clinic: make() for clinic in CLINICS}), protocol=Cape(n_colluding=1))


def linear() -> None:
    def clinic():
        columns = patients(1000)
        pressure = 100 + 0.4 * columns["age"] + 0.3 * columns["weight"] - 2 * columns["dose"]
        noisy = pressure + generator.normal(0, 6, 1000)
        X = np.column_stack(list(columns.values()))
        return labelled(X, noisy, bound=1.2, response=(80, 200), ranges=list(RANGES.values()))

    model = LinearRegression(epsilon=1.0, delta=1e-6).fit(federation(clinic))
    print("blood pressure per half range of", dict(zip(RANGES, model.coef_.round(1), strict=True)))
    print("95% intervals", model.interval_.round(1).tolist())
    print("predicted:", model.predict(prepared(patients(3))).round(0))
    print(model.guarantee_)


def logistic() -> None:
    def clinic():
        columns = patients(1000)
        odds = 0.08 * (columns["age"] - 55) + 0.05 * (columns["weight"] - 75)
        ill = np.where(generator.random(1000) < 1 / (1 + np.exp(-odds)), "ill", "well")
        X = np.column_stack(list(columns.values()))
        return labelled(X, ill, bound=1.2, classes=["well", "ill"], ranges=list(RANGES.values()))

    model = LogisticRegression(epsilon=1.0, delta=1e-6).fit(federation(clinic))
    print("log-odds per half range", dict(zip(RANGES, model.coef_.round(2), strict=True)))


def network() -> None:
    def clinic():
        X = generator.uniform(-1, 1, (1500, 2))
        return labelled(X, np.where(np.abs(X[:, 0]) > 0.5, 1, 0), bound=1.4, classes=[0, 1])

    model = NetworkClassifier(12, epsilon=4.0, delta=1e-6, n_iter=60).fit(federation(clinic))
    test = generator.uniform(-1, 1, (2000, 2))
    print("network accuracy", round(model.score(test, np.where(np.abs(test[:, 0]) > 0.5, 1, 0)), 2))


def counts() -> None:
    """A loss of one's own; "poisson" is registered in dpcape.statistics.poisson_loss."""

    def clinic():
        X = np.column_stack([np.full(1500, 0.5), generator.uniform(-0.6, 0.6, 1500)])
        visits = generator.poisson(5 * np.exp(X @ np.array([-0.8, 0.9])))
        return labelled(X, visits, bound=0.8, response=(0, 10))

    model = PolynomialLoss("poisson", epsilon=2.0, delta=1e-6).fit(federation(clinic))
    print("Poisson coefficients", model.coef_.round(2))


def clusters() -> None:
    def clinic():
        centres = np.array([[0.6, 0.0], [-0.3, 0.5], [-0.3, -0.5]])
        return rows(centres[generator.integers(0, 3, 1000)] + generator.normal(0, 0.1, (1000, 2)), bound=1.0)

    model = KMeans(3, epsilon=1.0, delta=1e-6).fit(federation(clinic))
    print("centres", model.cluster_centers_.round(2).tolist())


if __name__ == "__main__":
    linear()
    logistic()
    network()
    counts()
    clusters()
