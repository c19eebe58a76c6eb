"""Files of every version so far can be read, and say what they said when they were written."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpcape import PCA, KMeans, LinearRegression, Mean
from dpcape.core.errors import ProtocolError
from dpcape.core.messages import VERSION, decode_from_site, decode_to_site, encode
from dpcape.core.privacy.ledger import Charge
from dpcape.federation.kept_releases import KeptReleases
from dpcape.runs.folder import RunFolder
from dpcape.site.folder import SiteFolder
from dpcape.study.study import Study

from .make import figures

KEPT = sorted(path.parent for path in Path(__file__).parent.glob("*/expected.json"))
CLASSES: dict[str, Any] = {
    "mean": Mean,
    "pca": PCA,
    "kmeans": KMeans,
    "linear_regression": LinearRegression,
}
each_version = pytest.mark.parametrize("kept", KEPT, ids=lambda path: path.name)


def expected(kept: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((kept / "expected.json").read_text(encoding="utf-8"))
    return found


def same(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Compare numbers; sentences may be reworded, but never say another epsilon."""
    for name, value in wanted.items():
        if name == "guarantee":
            assert found[name].split("-differentially")[0] == value.split("-differentially")[0]
        else:
            np.testing.assert_array_equal(found[name], value)


def test_this_version_is_kept() -> None:
    assert KEPT


@each_version
def test_models_load(kept: Path) -> None:
    wanted = expected(kept)["models"]
    assert set(wanted) == set(CLASSES)
    for name, kind in CLASSES.items():
        same(figures(kind.load(kept / f"model-{name}.npz")), wanted[name])


@each_version
def test_a_study_has_its_digest_so_that_approvals_stay(kept: Path) -> None:
    assert Study.load(kept / "study.toml").digest() == expected(kept)["digest"]


@each_version
@pytest.mark.filterwarnings("ignore::dpcape.core.errors.UtilityWarning")
def test_a_run_folder_shows_its_result(kept: Path, tmp_path: Path) -> None:
    shutil.copytree(kept / "run", tmp_path / "run")
    run = RunFolder(tmp_path / "run")
    assert run.is_finished
    same(figures(run.model()), expected(kept)["run"])
    assert run.participants()
    assert run.guarantee()["status"] in ("verified", "replayable")
    assert isinstance(run.releases, KeptReleases)
    model = PCA.from_releases(run.releases.folder, n_components=2)
    # What a file says is the same; what is solved for again knows that rows on the grid are a little longer.
    np.testing.assert_allclose(model.components_, expected(kept)["run"]["components_"], rtol=1e-4, atol=1e-9)


@each_version
def test_a_ledger_is_verified_read_and_continued(kept: Path, tmp_path: Path) -> None:
    shutil.copytree(kept / "site", tmp_path / "site")
    # Version control keeps no such permissions.
    (tmp_path / "site" / "keys" / "identity.key").chmod(0o600)
    wanted = expected(kept)["site"]
    folder = SiteFolder(tmp_path / "site")
    assert folder.name == wanted["name"]
    assert list(folder.chain.verify()) == wanted["head"]
    assert [entry.kind for entry in folder.chain.entries()] == wanted["kinds"]
    assert folder.state().spent("cohort", 1e-5) == pytest.approx(wanted["spent"], rel=1e-9)
    study = Study.load(kept / "study.toml")
    assert study.digest() in folder.state().approvals
    before = folder.state().spent("cohort", 1e-5)
    folder.ledger(study, "cohort").charge(Charge(allowance="next", mu=0.1, gap=0.0, tail=0.0, n_releases=1))
    assert folder.state().spent("cohort", 1e-5) > before


@each_version
def test_messages_are_read_bit_for_bit_or_refused_by_their_version(kept: Path) -> None:
    frames = json.loads((kept / "messages.json").read_text(encoding="utf-8"))
    assert len(frames) > 10
    for direction, text in frames:
        data = bytes.fromhex(text)
        decode: Any = decode_to_site if direction == "to site" else decode_from_site
        if expected(kept)["message version"] != VERSION:
            with pytest.raises(ProtocolError, match="must be of version"):
                decode(data)
            continue
        allowance, message = decode(data)
        assert encode(message, allowance=allowance) == data
