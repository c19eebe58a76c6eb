"""Writing a release: a folder for the third party, one for the holder, always with the risk report."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpcape.factor_release.bundle import Bundle, codes, sorted_bundle, write_bundle
from dpcape.factor_release.risk import RiskReport


@dataclass(frozen=True)
class ReleasePaths:
    """Where a release was written."""

    third_party: Path
    holder: Path

    @property
    def risk_page(self) -> Path:
        """The risk report as a page."""
        return self.holder / "risk.html"


def _write_key(path: Path, train: NDArray[np.intp], test: NDArray[np.intp]) -> None:
    """Write which input row each code stands for."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["code", "part", "row"])
        writer.writerows((code, "training", int(i)) for code, i in zip(codes("a", len(train)), train, strict=True))
        writer.writerows((code, "test", int(i)) for code, i in zip(codes("b", len(test)), test, strict=True))


def write_release(bundle: Bundle, risk: RiskReport, folder: Path) -> ReleasePaths:
    """Write both folders; the risk report comes first, so that no bundle exists without one."""
    # Loaded when it is drawn: it needs matplotlib.
    from dpcape.factor_release.risk_page import risk_page

    paths = ReleasePaths(folder / "third_party", folder / "holder")
    paths.holder.mkdir(parents=True, exist_ok=True)
    (paths.holder / "risk.json").write_text(json.dumps(risk.as_dict(), indent=2) + "\n", encoding="utf-8")
    paths.risk_page.write_text(risk_page(risk), encoding="utf-8")
    ordered, train, test = sorted_bundle(bundle)
    _write_key(paths.holder / "key.csv", train, test)
    write_bundle(ordered, paths.third_party)
    return paths
