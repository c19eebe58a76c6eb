"""Ranges and levels from a REDCap data dictionary."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from dpcape import Schema, table
from dpcape.cli import main
from dpcape.core.errors import DamagedFile, InvalidParameter
from dpcape.schema.redcap import read_dictionary

HEAD = (
    '"Variable / Field Name","Form Name","Section Header","Field Type","Field Label","Choices, Calculations, OR Slider '
    'Labels","Field Note","Text Validation Type OR Show Slider Number","Text Validation Min","Text Validation Max",'
    'Identifier?,"Branching Logic (Show field only if...)"\n'
)
FIELDS = """record_id,base,,text,"Study ID",,,,,,,
name,base,,text,"Name",,,,,,y,
age,base,,text,"Age",,,integer,18,90,,
bmi,base,,text,"BMI",,,number,,,,
seen,base,,text,"Visit",,,date_dmy,2020-01-01,2024-12-31,,
sex,base,,radio,"Sex","1, Female | 2, Male | 9, Not said",,,,,,
smokes,base,,yesno,"Smokes",,,,,,,
drugs,base,,checkbox,"Drugs","1, Aspirin | -9, Other",,,,,,
pain,base,,slider,"Pain","none | some | worst",,,,,,
score,base,,calc,"Score","[age]+1",,,,,,
intro,base,,descriptive,"Welcome",,,,,,,
"""


def test_what_the_dictionary_says_is_proposed_and_the_rest_is_named(tmp_path: Path) -> None:
    (tmp_path / "dictionary.csv").write_text(HEAD + FIELDS)
    found = read_dictionary(tmp_path / "dictionary.csv")
    assert dict(found.columns) == {
        "age": {"range": [18.0, 90.0]},
        "seen": {"range": ["2020-01-01", "2024-12-31"]},
        "sex": {"levels": ["1", "2", "9"]},
        "smokes": {"levels": ["0", "1"]},
        "drugs___1": {"levels": ["0", "1"]},
        "drugs____9": {"levels": ["0", "1"]},
        "pain": {"range": [0.0, 100.0]},
    }
    assert set(found.left_out) == {"record_id", "name", "bmi", "score", "intro"}
    assert "identifier" in found.left_out["name"]
    assert "no minimum and maximum" in found.left_out["bmi"]
    result = CliRunner().invoke(main, ["schema", str(tmp_path / "dictionary.csv"), "--out", str(tmp_path / "s.toml")])
    assert result.exit_code == 0, result.output
    assert Schema.from_toml(tmp_path / "s.toml") == found.schema()
    assert "# bmi is left out" in (tmp_path / "s.toml").read_text()
    # A raw export is read by it as it is.
    (tmp_path / "export.csv").write_text(
        "record_id,age,bmi,seen,sex,smokes,drugs___1,drugs____9,pain\n1,44,23.1,2021-05-06,2,1,0,1,30\n2,,,,9,0,1,0,\n"
    )
    records = table(tmp_path / "export.csv", schema=tmp_path / "s.toml")
    assert records.n_records == 2
    assert not records.unusable
    assert (
        "exists"
        in CliRunner()
        .invoke(main, ["schema", str(tmp_path / "dictionary.csv"), "--out", str(tmp_path / "s.toml")])
        .output
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n1,2\n", "must be a REDCap data dictionary"),
        ("", "must be a REDCap data dictionary"),
        (HEAD + 'name,base,,text,"Name",,,,,,y,\n', "ranges or levels of some field"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "dictionary.csv").write_text(text)
    with pytest.raises(InvalidParameter, match=words):
        read_dictionary(tmp_path / "dictionary.csv")
    with pytest.raises(DamagedFile, match="could not be read"):
        read_dictionary(tmp_path / "nowhere.csv")


def test_a_name_of_several_lines_adds_no_column(tmp_path: Path) -> None:
    strange = '"x\n[columns.age]\nrange = [0, 1]\n[columns.y]\nrange = [0, 1]",base,,notes,"Notes",,,,,,,\n'
    (tmp_path / "dictionary.csv").write_text(HEAD + 'bmi,base,,text,"BMI",,,number,10,80,,\n' + strange)
    assert list(tomllib.loads(read_dictionary(tmp_path / "dictionary.csv").toml())["columns"]) == ["bmi"]
