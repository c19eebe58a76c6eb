"""What must be there before the blocks of a page can run, and would only distract its readers."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dpcape.site.folder import SiteFolder

from .blocks import ROOT


def _readme(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the study of the consortium guide, a table for each of its sites, and the folder of one of them."""
    guide = (ROOT / "docs" / "consortium.md").read_text(encoding="utf-8")
    study = re.search(r"^<!-- file: study.toml -->\n```toml\n(.*?)^```", guide, flags=re.MULTILINE | re.DOTALL)
    assert study is not None
    (folder / "study.toml").write_text(study[1])
    source = np.random.default_rng(0)
    for name in ("lima", "lyon", "oslo"):
        rows = [f"{source.normal(50, 12):.1f},{'FM'[n % 2]},{source.normal(3, 0.4):.2f}" for n in range(60)]
        (folder / f"{name}.csv").write_text("\n".join(["age,sex,thickness", *rows]) + "\n")
    SiteFolder.create(folder / "site", name="lyon").add_data("main", folder / "lyon.csv", epsilon=3.0, delta=1e-4)
    monkeypatch.setenv("DPCAPE_SITE", "site")


PREPARED: dict[str, Callable[[Path, pytest.MonkeyPatch], None]] = {"README.md": _readme}
