"""What approval is bound to: every value of a study counts, its layout does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpcape.study.study import Study

from .texts import text_of

TEXT = text_of("pca").replace("\ncenter = false", "")


def test_layout_does_not_count() -> None:
    lines = TEXT.split("\n")
    commented = "\n".join(f"{line}  # note" if line else "# note" for line in lines)
    assert Study.parse(commented).digest() == Study.parse(TEXT).digest()
    head, rest = TEXT.split("[protocol]")
    moved = "[protocol]" + rest + "\n" + head
    assert Study.parse(moved).digest() == Study.parse(TEXT).digest()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("2.0", "2.0000000001"),
        ("first", "second"),
        ("1e-5", "1.1e-5"),
        ("features = 6", "features = 7"),
        ("n_colluding = 1", "n_colluding = 1\ncancelling_ratio = 100.0"),
        ("n_components = 2", "n_components = 2\ncenter = false"),
        ("[sites.lima]", '[sites.lima]\ndata = "x.csv"'),
        ("[data]", '[federation]\nengine = "flare"\n[data]'),
    ],
)
def test_every_value_counts(old: str, new: str) -> None:
    assert Study.parse(TEXT.replace(old, new)).digest() != Study.parse(TEXT).digest()


def test_files_of_the_study_count(tmp_path: Path) -> None:
    (tmp_path / "columns.txt").write_text("a\nb\nc\n", encoding="utf-8")
    text = TEXT.replace("features = 6", 'columns = "columns.txt"')
    first = Study.parse(text, path=tmp_path / "study.toml")
    assert first.facts().feature_names == ("a", "b", "c")
    before = first.digest()
    (tmp_path / "columns.txt").write_text("a\nb\nd\n", encoding="utf-8")
    assert Study.parse(text, path=tmp_path / "study.toml").digest() != before
    # A study that was read keeps what it was.
    assert first.digest() == before


def test_a_schema_file_counts(tmp_path: Path) -> None:
    digests = []
    for high in (100, 99):
        schema = f"[columns.age]\nrange = [0, {high}]\n[columns.x]\nrange = [0, 1]\n"
        (tmp_path / "schema.toml").write_text(schema, encoding="utf-8")
        study = Study.parse(TEXT.replace("features = 6", 'schema = "schema.toml"'), path=tmp_path / "study.toml")
        assert study.facts().feature_names == ("age", "x")
        digests.append(study.digest())
    assert digests[0] != digests[1]


def test_the_digest_is_a_fixed_function() -> None:
    """A vector: sites of any version must agree on it, or approvals would be lost."""
    assert Study.parse(TEXT).digest() == "6f3bc0b389743278f649636e44aa694d7486359a4136d1da589aecd6a243da8d"
