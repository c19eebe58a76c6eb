"""Every mistake in a study is named with its file, line and column."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcape.core.errors import DamagedFile, InvalidParameter
from dpcape.study.study import Study

from .texts import ANALYSES, text_of

# (what to replace, by what, where the error must point, words it must say)
MISTAKES = [
    ("[study]", "[study", (1, 7), "must be valid TOML"),
    ("bound = 1.0", "bound = ", (19, 9), "must be valid TOML"),
    ("[study]", "[studie]", (1, 2), "got 'studie'. Remove or rename it"),
    ('name = "first"', 'name = "a b"', (2, 8), "name of [study] must be 1 to 64 of a-z"),
    ('name = "first"', "", (1, 1), "name of [study] must be a string; got nothing."),
    ('name = "first"', "nam = 'x'", (2, 1), "got nothing, but there is a field 'nam'"),
    ('"pca"', '"pcaa"', (3, 12), "Did you mean 'pca'?"),
    ('"pca"', "7", (3, 12), "analysis of [study] must be one of"),
    ("epsilon = 2.0", "epsilon = 0", (4, 11), "epsilon must be a positive finite number; got 0.0"),
    ("epsilon = 2.0", "epsilon = inf", (4, 11), "epsilon of [study] must be a positive finite number"),
    ("epsilon = 2.0", "epsilon = true", (4, 11), "epsilon of [study] must be a positive finite number"),
    ("epsilon = 2.0", "epsilon = { lima = 1.0 }", (4, 11), "each site (lima, lyon, oslo)"),
    ("epsilon = 2.0", 'epsilon = "2"', (4, 11), "epsilon of [study] must be a positive finite number"),
    ("delta = 1e-5", "delta = 1", (5, 9), "delta of [study] must be strictly between 0 and 1"),
    ("n_components = 2", "", (1, 1), "n_components of [study] must be given for pca"),
    ("n_components = 2", "n_components = 7", (6, 16), "n_components must be a whole number from 1 to 6 here; got 7"),
    ("n_components = 2", "n_components = 1979-05-27", (6, 16), "a string, a number, true, false"),
    ("n_components = 2", "n_components = 2\ncentre = true", (7, 1), "Did you mean 'center'?"),
    ('kind = "cape"', 'kind = "cap"', (9, 8), "Did you mean 'cape'?"),
    ("n_colluding = 1", "", (8, 1), "n_colluding of [protocol] must be a whole number"),
    ("n_colluding = 1", "n_colluding = -1", (10, 15), "at least 0"),
    ("n_colluding = 1", "n_colluding = 3", (10, 15), "n_colluding must be at most 2 with 3 sites"),
    ("n_colluding = 1", "n_colluding = 1\nminimum_sites = 9", (11, 17), "minimum_sites must be between"),
    ("n_colluding = 1", 'n_colluding = 1\ndeadline = "soon"', (11, 12), 'a duration such as "90s"'),
    ("n_colluding = 1", "n_colluding = 1\ndeadline = 0", (11, 12), "a duration"),
    ("n_colluding = 1", "n_colluding = 1\ncancelling_ratio = nan", (11, 20), "a finite number"),
    ("[sites.lima]", '[sites."li ma"]', (12, 8), "a site's name must be 1 to 64 of a-z"),
    ("[sites.lima]", "[sites.dealer]", (12, 8), "not 'dealer'"),
    ('kind = "cape"', 'kind = "dealer"\ndealer = "kiel"', (10, 10), "left out without [federation]"),
    ('kind = "cape"', 'kind = "dealer"\ndealer = "lima"', (10, 10), "neither a site of the study nor the coordinator"),
    ('kind = "cape"', 'kind = "dealer"\ndealer = "ki el"', (10, 10), "dealer must be 1 to 64 of a-z"),
    ('kind = "cape"', 'kind = "dealer"\ndealer = 3', (10, 10), "dealer of [protocol] must be a string"),
    ('kind = "cape"', 'kind = "cape"\ndealer = "kiel"', (10, 1), "'dealer' is not a field of [protocol]"),
    ("[sites.lima]", "[sites.lima]\nweight = 0.5", (12, 1), "weights must be given for each site"),
    ("[sites.lima]", "[sites.lima]\nrecords = 0", (13, 11), "at least 1"),
    ("[sites.lima]", "[sites.lima]\nfile = 'x'", (13, 1), "'file' is not a field of [sites.lima]"),
    ("bound = 1.0", "bound = -1.0", (19, 9), "bound of [data] must be a positive number"),
    ("bound = 1.0", "", (16, 1), "bound of [data] must be a finite number; got nothing."),
    ("features = 6", "", (16, 1), "columns, schema and features (given: no form)"),
    ("features = 6", 'features = 6\ncolumns = ["a"]', (19, 11), "(given: columns, features)"),
    ("features = 6", "features = 0", (18, 12), "at least 1"),
    ("features = 6", "columns = []", (18, 11), "a list of names"),
    ("features = 6", 'columns = ["a", "a"]', (18, 11), "distinct names"),
    ("features = 6", 'columns = "nowhere.txt"', (18, 11), "an existing file"),
    ("features = 6", 'columns = "../up.txt"', (18, 11), "in the study's folder or below"),
    ("features = 6", 'schema = "/etc/hostname"', (18, 10), "in the study's folder or below"),
    ("features = 6", "columns = { age = [9, 1] }", (18, 11), "low below high"),
    ("features = 6", "features = 6\nranges = [1, 0]", (19, 10), "low below high"),
    ("features = 6", "features = 6\nranges = [[0, 1]]", (19, 10), "a list of 6 such pairs"),
    ("features = 6", "features = 6\nmissing = 'x'", (19, 11), "missing of [data] must be a number"),
    ('kind = "rows"', 'kind = "row"', (17, 8), "Did you mean 'rows'?"),
    ('kind = "rows"', 'kind = "subjects"', (16, 1), "unit of [data] must be one of subject, record; got nothing."),
    (
        'kind = "rows"',
        'kind = "subjects"\nranges = [0, 1]',
        (18, 10),
        "ranges of [data] must be left out for subjects, whose numbers are not rescaled",
    ),
    (
        'kind = "rows"\nfeatures = 6',
        'kind = "subjects"\ncolumns = { age = [0, 9] }',
        (18, 11),
        "columns of [data] must be a list of names for subjects",
    ),
    ('kind = "rows"', 'kind = "documents"\nranges = [0, 1]', (18, 10), "must be left out for documents"),
    ('kind = "rows"', 'kind = "documents"\nmissing = 0', (18, 11), "missing of [data] must be left out for documents"),
    ('kind = "rows"', 'kind = "labelled"', (16, 1), "response of [data] must be given if classes is not"),
    ('kind = "rows"', 'kind = "views"\nbounds = [1, 2]', (16, 1), "[data.x] is missing. See docs"),
    ('kind = "rows"', 'kind = "views"\nviews = ["a"]', (18, 9), "views of [data] must be a list of 2 to 32 different"),
    ('kind = "rows"', 'kind = "views"\nviews = ["a", "a"]', (18, 9), "views of [data] must be a list of 2 to 32"),
    ('kind = "rows"', 'kind = "views"\nviews = ["a", "bounds"]', (18, 9), "none of them kind, views, bounds, invalid"),
    ('kind = "rows"', 'kind = "views"\nviews = ["a", "b"]', (16, 1), "[data.a] is missing. See docs"),
]


@pytest.mark.parametrize(("old", "new", "place", "words"), MISTAKES, ids=[f"{m[1] or 'no ' + m[0]}" for m in MISTAKES])
def test_mistakes_are_named_where_they_stand(
    tmp_path: Path, old: str, new: str, place: tuple[int, int], words: str
) -> None:
    text = text_of("pca").replace("\ncenter = false", "")
    assert text.count(old) == 1
    (tmp_path / "mine.toml").write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(InvalidParameter) as caught:
        Study.load(tmp_path / "mine.toml")
    message = str(caught.value)
    assert message.startswith(f"mine.toml, line {place[0]}, column {place[1]}: "), message
    assert words in message
    assert caught.value.where == f"mine.toml, line {place[0]}, column {place[1]}"
    assert caught.value.remedy, message


def test_there_are_many() -> None:
    assert len(MISTAKES) >= 55


def test_tables_that_are_missing_or_no_tables() -> None:
    for table in ("study", "protocol", "sites", "data"):
        text = text_of("pca").replace("\ncenter = false", "").replace(f"[{table}", f"[x{table}")
        with pytest.raises(InvalidParameter, match=r"study\.toml, line \d+, column \d+"):
            Study.parse(text)
        with pytest.raises(InvalidParameter, match=r"study\.toml, line 1, column"):
            Study.parse(f"{table} = 3\n")


def test_a_damaged_file_is_named_where_the_study_names_it(tmp_path: Path) -> None:
    (tmp_path / "columns.toml").write_text("[columns")
    text = text_of("pca").replace("\ncenter = false", "").replace("features = 6", 'schema = "columns.toml"')
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(DamagedFile, match=r"could not be read because it is missing or not valid TOML") as caught:
        Study.load(tmp_path / "mine.toml")
    assert caught.value.where == "mine.toml, line 18, column 10"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="readable UTF-8 text file"):
        Study.load(tmp_path / "nowhere.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidParameter, match="readable UTF-8 text file"):
        Study.load(tmp_path / "bytes.toml")
    with pytest.raises(InvalidParameter, match="at most"):
        Study.parse("#" * (2**20 + 1))
    with pytest.raises(InvalidParameter, match="valid TOML"):
        Study.parse("a = " + "[" * 5000)


PIECES = [*"\"'[]{}=#.\n\x00", "1e400", "-1", "nan", "true", "data", "x = 1", "1979-05-27"]


@settings(max_examples=200, deadline=None)
@given(
    analysis=st.sampled_from(["pca", "cca", "mean", "linear_regression"]),
    changes=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 12), st.sampled_from(PIECES)), min_size=1, max_size=3),
)
def test_no_text_breaks_the_reader(analysis: str, changes: list[tuple[float, int, str]]) -> None:
    """Whatever is typed: a study, or a message with a position; no other exception."""
    text = text_of(analysis)
    for where, length, piece in changes:
        at = int(where * len(text))
        text = text[:at] + piece + text[at + length :]
    message = complaint(text)
    assert message == "" or message.startswith("study.toml, line ")


def complaint(text: str) -> str:
    """Return what is wrong with a study; any exception but InvalidParameter is a failure."""
    try:
        assert len(Study.parse(text).digest()) == 64
    except InvalidParameter as error:
        return str(error)
    return ""


@settings(max_examples=60, deadline=None)
@given(text=st.text(max_size=80))
def test_random_text_is_refused_with_a_position(text: str) -> None:
    with pytest.raises(InvalidParameter, match=r"^study\.toml, line \d+, column \d+: "):
        Study.parse(text)


def test_texts_cover_the_analyses() -> None:
    from dpcape.analyses.registry import analyses

    # A polynomial loss or a module is registered by code of one's own, so no text here can name one.
    assert set(analyses()) - {"polynomial_loss", "torch_classifier"} <= set(ANALYSES), (
        "give every public analysis a study text"
    )
