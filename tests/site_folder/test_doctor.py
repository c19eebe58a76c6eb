"""What `dpcape doctor` says of a site before anything was set up."""

from __future__ import annotations

from pathlib import Path

from dpcape.cli.diagnosis import examine
from dpcape.site.folder import SiteFolder
from dpcape.study.study import Study

TEXT = """
[study]
name = "first"
analysis = "mean"
epsilon = 1.0
delta = 1e-5
[protocol]
kind = "independent"
[sites.lyon]
[data]
kind = "rows"
columns = ["age"]
bound = 1.0
"""


def test_a_site_without_data_is_told_so(tmp_path: Path) -> None:
    SiteFolder.create(tmp_path / "site", name="lyon")
    found = {entry.subject: entry for entry in examine(study=Study.parse(TEXT), folder=tmp_path / "site")}
    assert found["ledger"].good
    assert not found["approval"].good
    assert not found["data and bounds"].good
    assert found["data and bounds"].text == "The site has no data set. Register one with: dpcape site add."


TYPED = (
    TEXT.partition("[data]")[0].replace("mean", "summary")
    + """
[data]
kind = "table"
[data.columns]
age = { range = [0, 100] }
sex = { levels = ["F", "M"] }
"""
)


def test_levels_that_do_not_fit_a_table_are_noticed_at_the_site(tmp_path: Path) -> None:
    """The steward is told which column and how many; the study's other sites are not."""
    for name, sexes, is_good in (("good", ["F", "M", ""] * 40, True), ("bad", ["F", "male", ""] * 40, False)):
        path = tmp_path / f"{name}.csv"
        path.write_text("age,sex\n" + "\n".join(f"50,{sex}" for sex in sexes) + "\n")
        site = SiteFolder.create(tmp_path / name, name="lyon")
        site.add_data("patients", path, epsilon=3.0, delta=1e-4)
        found = {entry.subject: entry for entry in examine(study=Study.parse(TYPED), folder=tmp_path / name)}
        answer = found["data and bounds"]
        assert answer.good == is_good, answer.text
        assert is_good or ("'sex'" in answer.text and "40 of 120" in answer.text)
