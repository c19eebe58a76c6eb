"""Write the files of this version, once per release: ``python -m tests.kept.make``. They are never written again.

::

    VERSION/study.toml      a study
    VERSION/run/            the folder of its run, without the report
    VERSION/site/           a site folder with a ledger: ceiling, approval, denial, charge, note
    VERSION/model-*.npz     models of several kinds
    VERSION/messages.json   every message of one run, both ways
    VERSION/expected.json   what must be read from all of them
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dpcape import (
    PCA,
    Cape,
    Federation,
    KMeans,
    LinearRegression,
    Mean,
    Replay,
    __version__,
    in_process,
    labelled,
    rows,
)
from dpcape.core.messages import VERSION
from dpcape.runs.in_process import run_in_process
from dpcape.site.folder import SiteFolder
from dpcape.study.study import Study
from dpcape.transport.transport import Passing

HERE = Path(__file__).resolve().parent
SITES = ("lima", "lyon", "oslo")
STUDY = """[study]
name = "kept"
analysis = "pca"
n_components = 2
epsilon = 2.0
delta = 1e-6

[protocol]
kind = "cape"
n_colluding = 1

[sites.lima]
data = "lima.csv"
[sites.lyon]
data = "lyon.csv"
[sites.oslo]
data = "oslo.csv"

[data]
kind = "rows"
bound = 1.0
[data.columns]
age = [20, 90]
weight = [40, 140]
pressure = [80, 200]
"""


class Listening(Passing):
    """Keeps every message that passes."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.heard: list[tuple[str, str]] = []

    def ask(self, messages_by_site: Mapping[str, bytes], deadline: float | None) -> Any:
        replies, missing = super().ask(messages_by_site, deadline)
        self.heard += [("to site", data.hex()) for data in messages_by_site.values()]
        self.heard += [("from site", data.hex()) for data in replies.values()]
        return replies, missing


def table(number: int) -> np.ndarray:
    """Return synthetic records of one site."""
    draw = np.random.default_rng(number)
    severity = draw.normal(size=80)
    columns = 55 + 9 * severity, draw.normal(75, 10, 80), 130 + 12 * severity + draw.normal(0, 9, 80)
    return np.round(np.column_stack(columns), 1)


def models() -> dict[str, Any]:
    """Return one fitted model of several kinds."""
    plain = {name: table(number) / 200 for number, name in enumerate(SITES)}
    targets = {name: X[:, 0] for name, X in plain.items()}
    unlabelled = in_process({name: rows(X, bound=1.0) for name, X in plain.items()}, noise=Replay(1))
    pairs = {name: labelled(X, targets[name], bound=1.0, response=(0, 1)) for name, X in plain.items()}
    with_targets = in_process(pairs, noise=Replay(1))
    protocol = Cape(n_colluding=1)
    shared: dict[str, Any] = {"epsilon": 4.0, "delta": 1e-6}
    return {
        "mean": Mean(**shared).fit(Federation(unlabelled, protocol=protocol)),
        "pca": PCA(2, **shared, center=True).fit(Federation(unlabelled, protocol=protocol)),
        "kmeans": KMeans(2, **shared).fit(Federation(unlabelled, protocol=protocol)),
        "linear_regression": LinearRegression(**shared).fit(Federation(with_targets, protocol=protocol)),
    }


def figures(model: Any) -> dict[str, Any]:
    """Return the numbers of a model."""
    names = ("mean_", "components_", "explained_variance_", "cluster_centers_", "coef_", "intercept_")
    found = {name: np.asarray(getattr(model, name)).tolist() for name in names if hasattr(model, name)}
    return {**found, "guarantee": model.guarantee_.sentence()}


def write_site(place: Path, study: Study) -> dict[str, Any]:
    """Write a site folder; return what its ledger says."""
    np.savetxt(place.parent / "cohort.csv", table(1), delimiter=",", header="age,weight,pressure", comments="")
    folder = SiteFolder.create(place, name="lyon")
    folder.pin("lima", "01" * 32)
    folder.pin("oslo", "02" * 32)
    folder.add_data("cohort", place.parent / "cohort.csv", epsilon=6.0, delta=1e-5)
    folder.approve(study, "cohort", runs=3)
    folder.deny(Study.parse(study.text.replace('"kept"', '"other"')))
    folder.ledger(study, "cohort").charge(study.charge("lyon"))
    head = folder.chain.verify()
    state = folder.state()
    kinds = [entry.kind for entry in folder.chain.entries()]
    folder.chain.close()
    return {"head": list(head), "spent": state.spent("cohort", 1e-5), "kinds": kinds, "name": folder.name}


def main() -> None:
    """Write the folder of this version; refuse to write it a second time."""
    target = HERE / __version__
    if target.exists():
        sys.exit(f"{target.name} is kept already; files of a version never change")
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory(prefix="dpcape-kept-") as temporary:
        made = Path(temporary) / "made"
        made.mkdir()
        for number, name in enumerate(SITES):
            np.savetxt(made / f"{name}.csv", table(number), delimiter=",", header="age,weight,pressure", comments="")
        (made / "study.toml").write_text(STUDY)
        study = Study.load(made / "study.toml")
        run = run_in_process(study, made / "run", noise=Replay(5))
        expected: dict[str, Any] = {
            "version": __version__,
            "message version": VERSION,
            "digest": study.digest(),
            "run": figures(run.model()),
            "site": write_site(made / "site", study),
            "models": {},
        }
        for name, model in models().items():
            model.save(made / f"model-{name}.npz")
            expected["models"][name] = figures(model)
        plain = {name: rows(table(number) / 200, bound=1.0) for number, name in enumerate(SITES)}
        line = Listening(in_process(plain, noise=Replay(2)))
        Mean(epsilon=2.0, delta=1e-6).fit(Federation(line, protocol=Cape(n_colluding=1)))
        (made / "messages.json").write_text(json.dumps(line.heard, indent=0) + "\n")
        (made / "expected.json").write_text(json.dumps(expected, indent=1, sort_keys=True) + "\n")
        for useless in ("run/report.html", "run/.lock", "site/ledger.sqlite.lock", "cohort.csv"):
            (made / useless).unlink(missing_ok=True)
        shutil.copytree(made, target)


if __name__ == "__main__":
    main()
