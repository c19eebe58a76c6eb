"""One spelling of each analysis: hyphens, and underscores mean the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from dpcape.analyses.registry import own_analyses, variants
from dpcape.cli import main
from dpcape.core.errors import InvalidParameter
from dpcape.study.study import Study

from .texts import ANALYSES, text_of

LONG = sorted(name for name in ANALYSES if "_" in name)
# Families of this one are planned under names of their own.
BY_FAMILY = {"generalized-linear-model"}


@pytest.mark.parametrize("name", LONG)
def test_both_spellings_are_the_same_study(name: str, tmp_path: Path) -> None:
    text = text_of(name)
    assert f'"{name}"' in text
    old = Study.parse(text, path=tmp_path / "study.toml")
    new = Study.parse(text.replace(f'"{name}"', f'"{name.replace("_", "-")}"'), path=tmp_path / "study.toml")
    assert new.digest() == old.digest()
    assert new.analysis == old.analysis == name
    assert new.shares({site: 1000 for site in new.sites}) == old.shares({site: 1000 for site in old.sites})


def test_refusals_list_the_spelling_with_hyphens() -> None:
    with pytest.raises(InvalidParameter, match="linear-regression") as refusal:
        Study.parse(text_of("pca").replace('"pca"', '"linear-regresion"'))
    assert "linear_regression" not in str(refusal.value)


def test_every_analysis_that_can_be_planned_has_a_plan_under_its_spelling() -> None:
    planned = {entry.spelling for entry in own_analyses().values() if entry.variants}
    assert planned - BY_FAMILY <= set(variants())
    options = ["--features", "5", "--records", "4000", "--sites", "4", "--colluding", "1", "--protocol", "cape"]
    budget = ["--epsilon", "1", "--delta", "1e-5", "--json"]
    found = [
        CliRunner().invoke(main, ["plan", "--analysis", name, *options, *budget], catch_exceptions=False).stdout
        for name in ("linear-regression", "linear_regression")
    ]
    assert found[0] == found[1] != ""
