"""A site process reads a study, approves it and answers for it without estimators and without scikit-learn."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CODE = """
import sys
from pathlib import Path

from dpcape.site.folder import SiteFolder
from dpcape.core.messages import Describe, Described, decode_from_site, encode

here = Path(sys.argv[1])
(here / "lyon.csv").write_text("a,b\\n" + "0.1,0.2\\n" * 40)
(here / "study.toml").write_text('''
[study]
name = "first"
analysis = "{analysis}"
epsilon = 1.0
delta = 1e-6
{parameters}
[protocol]
kind = "independent"
[sites.lyon]
[data]
kind = "rows"
columns = ["a", "b"]
bound = 1.0
''')
place = SiteFolder.create(here / "site", name="lyon")
place.add_data("cohort", here / "lyon.csv", epsilon=5.0, delta=1e-5)
study = place.load_study(here / "study.toml")
place.approve(study, "cohort")
site = place.site_for(study)
_, answer = decode_from_site(site.answer(encode(Describe())))
assert isinstance(answer, Described), answer
unwanted = ("sklearn", "dpcape.estimators", "dpcape.federation", "dpcape.planning", "dpcape.report", "matplotlib")
loaded = sorted(name for name in sys.modules if name.startswith(unwanted))
print(loaded)
sys.exit(bool(loaded))
"""


def test_a_site_process_needs_no_estimators(tmp_path: Path) -> None:
    for analysis, parameters in (
        ("pca", "n_components = 1"),
        ("mixture_model", "n_components = 2\nnoise_variance = 0.1"),
    ):
        folder = tmp_path / analysis
        folder.mkdir()
        code = CODE.replace("{analysis}", analysis).replace("{parameters}", parameters)
        run = subprocess.run([sys.executable, "-c", code, folder], capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stdout + run.stderr
