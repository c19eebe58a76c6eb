"""Messages as they cross the wire, their forms, and what analyses make of them, with noise and keys that repeat."""

from __future__ import annotations

import hashlib
import inspect
import json
import typing
import warnings
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

import dpcape

from . import places
from .places import Passing, decode_from_site, decode_to_site, encode
from .repeated import repeated

SITES = ("ava", "bob", "cid", "dot", "eve")


class Recorded(Passing):
    """Keeps a digest of every message and reply, and loses a site at its first message of a kind."""

    def __init__(self, inner: Any, lost: tuple[str, str, bool] | None = None) -> None:
        super().__init__(inner)
        self.crossed: list[list[Any]] = []
        self.requests: list[list[Any]] = []
        self._lost, self._gone = lost, False

    def ask(
        self, messages_by_site: Mapping[str, bytes], deadline: float | None
    ) -> tuple[dict[str, bytes], tuple[str, ...]]:
        replies, missing = {}, []
        for site, data in messages_by_site.items():
            allowance, message = decode_to_site(data)
            assert encode(message, allowance=allowance) == data
            kind = type(message).__name__
            losing = self._lost is not None and (site, kind) == self._lost[:2]
            if self._lost is not None and site == self._lost[0] and (self._gone or (losing and not self._lost[2])):
                self._gone = True
                missing.append(site)
                self.crossed.append([site, kind, *_digest(data), "lost"])
                continue
            answer = super().ask({site: data}, deadline)[0][site]
            self.crossed.append([site, kind, *_digest(data), *_reply(answer)])
            if kind == "Submit" and site == SITES[0]:
                self.requests.append(_asked(message.request))
            if losing:
                self._gone = True
                missing.append(site)
            else:
                replies[site] = answer
        return replies, tuple(missing)


def _digest(data: bytes) -> tuple[int, str]:
    return len(data), hashlib.sha256(data).hexdigest()[:32]


def _reply(answer: bytes) -> list[Any]:
    allowance, reply = decode_from_site(answer)
    kind = type(reply).__name__
    if kind == "Described":
        # The version is the one thing that may change.
        reply = msgspec.structs.replace(reply, version="0")
    if kind == "Refused":
        # Words are improved; which error it is stays.
        return [kind, reply.error]
    return [kind, *_digest(encode(reply, allowance=allowance))]


def _asked(request: Any) -> list[Any]:
    """Return what a request names: whole numbers and words as they are, arrays by type and shape."""
    public = {
        key: [value.dtype, list(value.shape)]
        if hasattr(value, "dtype")
        else (value if not isinstance(value, float) else "float")
        for key, value in request.public.items()
    }
    return [request.release, request.statistic, public]


def sixteenths(generator: np.random.Generator, shape: tuple[int, ...], most: int = 6) -> np.ndarray:
    """Return small multiples of 1/16: sums of their products are exact in whatever order they are added."""
    return generator.integers(-most, most + 1, size=shape) / 16


def _rows(n_sites: int) -> dict[str, Any]:
    generator = np.random.default_rng(31)
    return {
        site: dpcape.rows(sixteenths(generator, (20 + 7 * index, 3)), bound=1.0)
        for index, site in enumerate(SITES[:n_sites])
    }


# (protocol, sites, who is lost at which message, and whether after it has answered, an allowance too many)
RUNS: dict[str, tuple[Any, int, tuple[str, str, bool] | None]] = {
    "cape, all finish": (lambda: dpcape.Cape(n_colluding=1), 4, None),
    "cape, ratio 1, collusion 0": (lambda: dpcape.Cape(n_colluding=0, cancelling_ratio=1.0), 3, None),
    "cape, lost when it greets": (lambda: dpcape.Cape(n_colluding=1, minimum_sites=4), 5, ("bob", "Greet", False)),
    "cape, lost at its draw": (lambda: dpcape.Cape(n_colluding=1, minimum_sites=4), 5, ("cid", "Draw", False)),
    "cape, lost after its draw": (lambda: dpcape.Cape(n_colluding=1, minimum_sites=4), 5, ("cid", "Draw", True)),
    "cape, lost at its release": (lambda: dpcape.Cape(n_colluding=1, minimum_sites=4), 5, ("dot", "Submit", False)),
    "cape, lost after its release": (lambda: dpcape.Cape(n_colluding=1, minimum_sites=4), 5, ("dot", "Submit", True)),
    "cape, lost when it opens": (lambda: dpcape.Cape(n_colluding=1, minimum_sites=4), 5, ("ava", "Unmask", False)),
    "cape, too few left": (lambda: dpcape.Cape(n_colluding=1), 4, ("dot", "Submit", False)),
    "secure sum, all finish": (lambda: dpcape.SecureSum(n_colluding=1), 4, None),
    "secure sum, lost at its release": (
        lambda: dpcape.SecureSum(n_colluding=1, minimum_sites=4),
        5,
        ("eve", "Submit", False),
    ),
    "secure sum, lost when it opens": (
        lambda: dpcape.SecureSum(n_colluding=1, minimum_sites=4),
        5,
        ("eve", "Unmask", False),
    ),
    "independent": (lambda: dpcape.Independent(), 3, None),
    "independent, one lost": (lambda: dpcape.Independent(minimum_sites=2), 3, ("bob", "Submit", False)),
    "dealer": (lambda: dpcape.Dealer(n_colluding=1), 4, None),
    "exact": (lambda: dpcape.Exact(), 3, None),
}


def wire() -> dict[str, Any]:
    """Return, per run, every message with its length and digest, and the results."""
    return {**{label: _run(label, *about) for label, about in RUNS.items()}, "secure sum, renewed": _many_rounds()}


def _many_rounds() -> dict[str, Any]:
    """Go on until the session's secrets are used up: messages by kind, and one digest of all."""
    n_releases = 102
    with repeated("many"):
        line = Recorded(dpcape.in_process(_rows(3), noise=dpcape.Replay(4711)))
        federation = dpcape.Federation(line, protocol=dpcape.SecureSum(n_colluding=0))
        allowance = federation.allow(30.0, 1e-5, (1 / n_releases,) * n_releases)
        for _ in range(n_releases):
            allowance.mean(places.first_moments(federation.facts))
    kinds = [entry[1] for entry in line.crossed]
    return {
        "messages": [[kind, kinds.count(kind)] for kind in dict.fromkeys(kinds)],
        "all": _digest(json.dumps(line.crossed).encode())[1],
    }


def _run(label: str, protocol: Any, n_sites: int, lost: tuple[str, str, bool] | None) -> dict[str, Any]:
    with repeated(label), warnings.catch_warnings():
        warnings.simplefilter("ignore", places.errors.DpcapeWarning)
        line = Recorded(dpcape.in_process(_rows(n_sites), noise=dpcape.Replay(4711)), lost)
        federation = dpcape.Federation(line, protocol=protocol(), weights=None)
        epsilon = {site: 1.0 + index for index, site in enumerate(federation.sites)}
        means: list[Any] = []
        try:
            allowance = federation.allow(epsilon, 1e-5, (0.75, 0.25))
            means = [
                np.asarray(allowance.mean(make(federation.facts)), dtype=float).ravel().tolist()
                for make in (places.second_moment, places.first_moments)
            ]
            survivors = [list(entry.survivors) for entry in allowance.releases]
        except places.errors.DpcapeError as error:
            survivors = [type(error).__name__]
        # Refused in words that are not recorded, under a name that is.
        if protocol().name == "independent":
            refused = [
                _reply(line._inner.ask({"ava": data}, None)[0]["ava"])
                for data in (b"", encode(places.messages.Correct(release=0), allowance="none"))
            ]
            line.crossed += [["ava", *entry] for entry in refused]
    return {"messages": line.crossed, "means": means, "survivors": survivors}


def forms() -> dict[str, Any]:
    """Return every message's tag, fields and types, names of errors and of statistics."""
    kinds = [*typing.get_args(places.ToSite), *typing.get_args(places.FromSite)]
    schemas, components = msgspec.json.schema_components(kinds, ref_template="{name}")
    named = {kind.__name__: _plain(schema, components) for kind, schema in zip(kinds, schemas, strict=True)}
    found = {
        name: [base.__name__ for base in kind.__mro__[1:]]
        for name, kind in sorted(vars(places.errors).items())
        if inspect.isclass(kind) and issubclass(kind, Exception)
    }
    statistics = {
        name: {"kinds": sorted(kind.kinds), "units": sorted(kind.units), "public": _public(kind)}
        for name, kind in sorted(places.KNOWN_STATISTICS.items())
        if kind.__module__.startswith("dpcape.")
    }
    return {
        "to sites": [kind.__name__ for kind in typing.get_args(places.ToSite)],
        "from sites": [kind.__name__ for kind in typing.get_args(places.FromSite)],
        "version": places.messages.VERSION,
        "messages": named,
        "errors": found,
        "statistics": statistics,
    }


def _public(kind: Any) -> list[str]:
    return [name for name in inspect.signature(kind).parameters if name != "facts"]


def _plain(schema: Any, components: Mapping[str, Any]) -> Any:
    """Write a schema without the names of structs that do not travel, with fields in their order."""
    if isinstance(schema, list):
        return [_plain(entry, components) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _plain(components[schema["$ref"]], components)
    return {
        key: [[name, _plain(entry, components)] for name, entry in value.items()]
        if key == "properties"
        else _plain(value, components)
        for key, value in schema.items()
        if key not in ("title", "description", "mapping")
    }


def _subjects(unit: str) -> dict[str, Any]:
    generator = np.random.default_rng(12)
    mixing = np.array([[12, 2, 4], [4, 14, -4]]) / 16
    return {
        site: dpcape.subjects(
            [np.rint(16 * generator.laplace(size=(16, 2))) / 16 @ mixing for _ in range(30 + index)],
            bound=3.0,
            unit=unit,
            rows_per_subject=40,
            n_features=3,
        )
        for index, site in enumerate(SITES[:4])
    }


def _documents() -> dict[str, Any]:
    generator = np.random.default_rng(23)
    topics = np.array([[0.6, 0.2, 0.1, 0.1], [0.1, 0.1, 0.2, 0.6]])
    return {
        site: dpcape.documents(np.vstack([generator.multinomial(8, topic, size=150) for topic in topics]))
        for site in SITES[:4]
    }


def _labelled(kind: str) -> dict[str, Any]:
    generator = np.random.default_rng(7)
    made = {}
    for site in SITES[:4]:
        x = sixteenths(generator, (300, 3), 8)
        if kind == "response":
            made[site] = dpcape.labelled(x, x @ [0.5, -0.25, 0.125], bound=1.0, response=(-1, 1))
        elif kind == "counts":
            made[site] = dpcape.labelled(x, generator.poisson(2, size=300).clip(0, 8), bound=1.0, response=(0, 8))
        else:
            names = np.array(["well", "ill", "odd"])[: 2 if kind == "two" else 3]
            y = names[np.digitize(x[:, 0], [0.0] if kind == "two" else [-0.2, 0.2])]
            made[site] = dpcape.labelled(x, y, bound=1.0, classes=list(names))
    return made


def _tables(kind: str) -> dict[str, Any]:
    generator = np.random.default_rng(5)
    made = {}
    for index, site in enumerate(SITES[:4]):
        x = sixteenths(generator, (150 + 10 * index, 4), 4) + 0.125
        x[:, 0] += generator.integers(0, 2, size=len(x)) * 0.25
        made[site] = dpcape.views(x[:, :2], x[:, 1:], bounds=(1.0, 2.0)) if kind == "views" else None
        if kind == "three views":
            made[site] = dpcape.views(x[:, :2], x[:, 1:3], x[:, 2:], bounds=(1.0, 2.0, 0.5))
        if kind == "rows":
            made[site] = dpcape.rows(x, bound=2.0, feature_names=["age", "dose", "time", "score"])
    return made


def _clusters() -> dict[str, Any]:
    generator = np.random.default_rng(3)
    centres = np.repeat([[0.625, 0.0], [-0.625, 0.0]], 150, axis=0)
    return {site: dpcape.rows(centres + sixteenths(generator, (300, 2), 2), bound=1.0) for site in SITES[:4]}


def _people() -> dict[str, Any]:
    generator = np.random.default_rng(8)
    columns: dict[str, Any] = {"age": (0, 64), "stage": {"levels": [0, 1, 2]}, "arm": {"levels": [0, 1]}}
    made = {}
    for site in SITES[:4]:
        levels = {name: generator.integers(0, count, 200) for name, count in (("stage", 3), ("arm", 2))}
        made[site] = dpcape.table({"age": generator.integers(0, 65, 200), **levels}, columns=columns)
    return made


def _followed() -> dict[str, Any]:
    generator = np.random.default_rng(9)
    columns: dict[str, Any] = {"died": {"time": "days", "event": "dead", "range": [0, 64]}, "arm": {"levels": [0, 1]}}
    made = {}
    for site in SITES[:4]:
        codes = {name: generator.integers(0, 2, 200) for name in ("dead", "arm")}
        made[site] = dpcape.table({"days": generator.integers(1, 80, 200), **codes}, columns=columns)
    return made


_START = np.array([[0.125, 0.0], [-0.125, 0.0]])
FITS: dict[str, tuple[Any, Any, Any]] = {
    "mean": (dpcape.Mean, {}, lambda: _tables("rows")),
    "summary": (dpcape.Summary, {"by": ["arm"], "bins": 8}, _people),
    "group contrast": (dpcape.GroupContrast, {"contrast": "arm", "outcomes": "age", "site": "stage"}, _people),
    "harmonise": (dpcape.Harmonise, {"site": "stage"}, _people),
    "heterogeneity": (dpcape.Heterogeneity, {"site": "stage"}, _people),
    "mass univariate": (dpcape.MassUnivariate, {"contrast": "arm", "covariates": ["stage"]}, _people),
    "kaplan-meier": (dpcape.KaplanMeier, {"by": ["arm"], "bins": 8}, _followed),
    "cox": (dpcape.Cox, {"columns": ["arm"]}, _followed),
    "log-rank": (dpcape.LogRank, {"by": ["arm"], "bins": 8}, _followed),
    "pca": (dpcape.PCA, {"n_components": 2, "center": False}, lambda: _tables("rows")),
    "pca, centred": (dpcape.PCA, {"n_components": 2, "center": True}, lambda: _tables("rows")),
    "correlation": (dpcape.Correlation, {}, lambda: _tables("rows")),
    "correlation of columns": (dpcape.Correlation, {"columns": ["age", "arm", "stage"]}, _people),
    "cca": (dpcape.CCA, {"n_components": 1, "center": False}, lambda: _tables("views")),
    "cca, scaled": (dpcape.CCA, {"n_components": 1, "scale": "private"}, lambda: _tables("views")),
    "cca, centred": (dpcape.CCA, {"n_components": 1, "center": True}, lambda: _tables("views")),
    "pls": (dpcape.PLS, {"n_components": 1}, lambda: _tables("views")),
    "multi cca": (dpcape.MultiCCA, {"n_components": 1, "center": False}, lambda: _tables("three views")),
    "multi cca, scaled": (
        dpcape.MultiCCA,
        {"n_components": 1, "scale": "private"},
        lambda: _tables("three views"),
    ),
    "linear regression": (dpcape.LinearRegression, {}, lambda: _labelled("response")),
    "linear regression, no intercept": (
        dpcape.LinearRegression,
        {"fit_intercept": False},
        lambda: _labelled("response"),
    ),
    "logistic regression": (dpcape.LogisticRegression, {}, lambda: _labelled("two")),
    "poisson model": (dpcape.GeneralizedLinearModel, {"family": "poisson"}, lambda: _labelled("counts")),
    "poisson model, offset": (
        dpcape.GeneralizedLinearModel,
        {"family": "poisson", "offset": 1},
        lambda: _labelled("counts"),
    ),
    "gamma model": (dpcape.GeneralizedLinearModel, {"family": "gamma"}, lambda: _labelled("counts")),
    "multinomial model": (dpcape.GeneralizedLinearModel, {"family": "multinomial"}, lambda: _labelled("three")),
    "multinomial model, ridge": (
        dpcape.GeneralizedLinearModel,
        {"family": "multinomial", "ridge": 0.1},
        lambda: _labelled("three"),
    ),
    "polynomial loss": (dpcape.PolynomialLoss, {"loss": "poisson"}, lambda: _labelled("counts")),
    "network classifier": (dpcape.NetworkClassifier, {"n_hidden": 3, "n_iter": 3}, lambda: _labelled("two")),
    "network classifier, three": (dpcape.NetworkClassifier, {"n_hidden": 2, "n_iter": 2}, lambda: _labelled("three")),
    "kmeans": (dpcape.KMeans, {"n_clusters": 2, "n_iter": 3, "init": _START}, _clusters),
    "topic model, full": (dpcape.TopicModel, {"n_components": 2, "design": "full"}, _documents),
    "topic model, whitened": (dpcape.TopicModel, {"n_components": 2, "design": "whitened"}, _documents),
    "topic model, words": (dpcape.TopicModel, {"n_components": 2, "n_words": 3, "document_length": 8}, _documents),
    "mixture, full": (
        dpcape.MixtureModel,
        {"n_components": 2, "noise_variance": 0.005, "design": "full"},
        _clusters,
    ),
    "mixture, whitened": (
        dpcape.MixtureModel,
        {"n_components": 2, "noise_variance": 0.005, "design": "whitened"},
        _clusters,
    ),
    "joint ICA, record": (dpcape.JointICA, {"n_components": 2}, lambda: _subjects("record")),
    "joint ICA, record, infomax": (
        dpcape.JointICA,
        {"n_components": 2, "solver": "infomax", "n_iter": 3},
        lambda: _subjects("record"),
    ),
    "joint ICA, subject": (dpcape.JointICA, {"n_components": 2, "n_timepoints": 16}, lambda: _subjects("subject")),
    "joint ICA, subject, infomax": (
        dpcape.JointICA,
        {"n_components": 2, "n_timepoints": 16, "solver": "infomax", "n_iter": 3},
        lambda: _subjects("subject"),
    ),
}


def fits() -> dict[str, Any]:
    """Return what each analysis finds in made-up records, and what it asked for on the way."""
    return {label: _fitted(label, *about) for label, about in FITS.items()}


def _fitted(label: str, make: Any, parameters: Any, records: Any) -> dict[str, Any]:
    with repeated(label), warnings.catch_warnings():
        warnings.simplefilter("ignore", places.errors.DpcapeWarning)
        line = Recorded(dpcape.in_process(records(), noise=dpcape.Replay(17)))
        federation = dpcape.Federation(line, protocol=dpcape.Cape(n_colluding=1))
        model = make(**parameters, epsilon=20.0, delta=1e-4).fit(federation)
    found = {
        name: np.asarray(value, dtype=float).ravel().tolist()
        for name, value in sorted(vars(model).items())
        if name.endswith("_") and not name.startswith("_") and _is_numeric(value)
    }
    guarantee = model.guarantee_
    return {
        "found": found,
        "guarantee": {
            "mu": guarantee.mu,
            "epsilon": guarantee.epsilon,
            "sites": {site: entry.epsilon for site, entry in guarantee.sites.items()},
        },
        "releases": [[entry.statistic, entry.size, entry.scale] for entry in model.releases_],
        "requests": line.requests,
    }


def _is_numeric(value: Any) -> bool:
    return isinstance(value, (int, float, np.ndarray, np.number)) and np.asarray(value).dtype.kind in "biuf"
