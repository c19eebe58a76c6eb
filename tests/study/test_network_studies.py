"""Studies of networks: several hidden layers in a file, and modules that no site runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dpcape import NetworkClassifier
from dpcape.core.errors import InvalidParameter
from dpcape.runs.in_process import run_in_process
from dpcape.study.study import Study

from .texts import CLASSES, HEAD

SITES = ("lima", "lyon", "oslo")


def _study(folder: Path, analysis: str, parameters: str) -> Study:
    text = HEAD.format(analysis=analysis, parameters=parameters, data=CLASSES)
    generator = np.random.default_rng(1)
    for name in SITES:
        X = generator.uniform(-0.4, 0.4, (60, 5))
        np.savez(folder / f"{name}.npz", X=X, y=np.where(X[:, 0] > 0, "a", "b"))
        text = text.replace(f"[sites.{name}]", f'[sites.{name}]\ndata = "{name}.npz"')
    (folder / "study.toml").write_text(text, encoding="utf-8")
    return Study.load(folder / "study.toml")


def test_several_hidden_layers_are_a_list_in_a_study(tmp_path: Path) -> None:
    study = _study(tmp_path, "network_classifier", "n_hidden = [4, 3]\nn_iter = 3")
    run_in_process(study, tmp_path / "out")
    model = NetworkClassifier.load(next((tmp_path / "out").rglob("model.npz")))
    assert [layer.shape for layer in model.layers_] == [(4, 6), (3, 5), (1, 4)]
    assert model.guarantee_.releases == 3


@pytest.mark.parametrize("layers", ["[]", "[4, 0]", '["4"]', "[4, 2.5]", "[1, 1, 1, 1, 1, 1, 1, 1, 1]"])
def test_layers_without_meaning_are_refused(layers: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="n_hidden"):
        _study(tmp_path, "network_classifier", f"n_hidden = {layers}\nn_iter = 3")


def test_a_study_cannot_name_a_module_that_no_package_declares(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match=r"line 6.*module must be one of .*'small'.*package that declares it"):
        _study(tmp_path, "torch_classifier", 'module = "small"')
