"""What `dpcape doctor` says of a site before anything was set up."""

from __future__ import annotations

from pathlib import Path

from dpcape.cli.diagnosis import examine
from dpcape.site.folder import SiteFolder
from dpcape.study import Study

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
