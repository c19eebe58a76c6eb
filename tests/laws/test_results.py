"""What must hold for the result of every estimator: each figure has a meaning, and every format shows the same."""

from __future__ import annotations

import ast
import csv
import io
import math
import re
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest

import dpcape.report
from dpcape.charts import Chart
from dpcape.estimators.estimator import FederatedEstimator
from dpcape.report.drawing import draw
from dpcape.results import EACH, LOG, TOGETHER, Estimates, Result, Section, table_of
from dpcape.tables import NOT_ESTIMABLE, Table, interval

from .estimator_case import EstimatorCase, all_estimators
from .test_estimators import fitted

pytestmark = pytest.mark.filterwarnings("ignore::dpcape.core.errors.DpcapeWarning")
ROOT = Path(__file__).parents[2]
CASES = all_estimators()
each_case = pytest.mark.parametrize("case", CASES, ids=str)
# One spelling of what every field calls by several names.
OTHER_SPELLINGS = {
    "p_values_": ("p_", "p_value_", "pvalue_", "pvalues_"),
    "adjusted_p_values_": ("q_", "q_value_", "q_values_"),
    "standard_errors_": ("se_", "standard_error_", "std_err_"),
    "interval_": ("intervals_", "ci_", "conf_int_"),
    "noise_scale_": ("noise_scales_", "noise_sd_"),
}


@each_case
def test_every_figure_says_what_it_estimates(case: EstimatorCase) -> None:
    result: Result = fitted(case).result()
    assert result.rows
    for row in result.rows:
        assert row.quantity
        assert len(row.estimand) > 20
        assert not row.estimand.endswith(".")
        has_interval = not (isinstance(row.low, float) and math.isnan(row.low))
        assert has_interval == (not (isinstance(row.high, float) and math.isnan(row.high)))
        assert has_interval == (not math.isnan(row.confidence)) == bool(row.covers)
        assert row.multiplicity in ((EACH, TOGETHER) if has_interval else ("",))
        if row.scale == LOG and math.isfinite(row.standard_error):
            # The interval of a ratio is symmetric on the scale of its standard error.
            low, value, high = (math.log(float(end)) for end in (row.low, row.estimate, row.high))
            assert high - value == pytest.approx(value - low, rel=1e-6)
            assert high - value == pytest.approx(1.959964 * row.standard_error, rel=1e-6)
    assert all(text and not text.endswith(".") for text in result.assumptions)


@each_case
def test_every_format_is_written_from_the_same_figures(case: EstimatorCase) -> None:
    model = fitted(case)
    result = model.result()
    text, markdown, latex = result.to_text(), result.to_markdown(), result.to_latex()
    if case.estimator != "Summary":
        # It prints one of its two tables.
        assert (model.to_text(), model.to_markdown(), model.to_latex()) == (text, markdown, latex)
    for section in result.shown:
        for table in section.shown():
            assert table.text() in text
            assert table.markdown() in markdown
            assert table.latex() in latex
        for meaning in section.meanings():
            assert meaning in text
            assert meaning in markdown
    assert not re.search(r"\bnan\b|\binf\b|anything", text)
    assert latex.count("{") == latex.count("}")
    assert latex.count(r"\begin{tabular}") == latex.count(r"\end{tabular}") == markdown.count("\n| --- |")
    listed = list(csv.DictReader(io.StringIO(model.to_csv())))
    assert len(listed) == len(result.rows) == len(result.to_list())
    assert [row["quantity"] for row in listed] == [row.quantity for row in result.rows]
    said = model.methods()
    for meaning in result.meanings():
        assert meaning in said
    for assumed in result.assumptions:
        assert assumed in said


@each_case
def test_a_result_is_computed_and_not_stored(case: EstimatorCase, tmp_path: Path) -> None:
    model = fitted(case)
    before = set(vars(model))
    written = (model.to_text(), model.to_csv(), model.result().notes)
    assert set(vars(model)) == before
    model.save(tmp_path / "model.npz")
    again = type(model).load(tmp_path / "model.npz")
    assert (again.to_text(), again.to_csv(), again.result().notes) == written


def test_every_kind_of_picture_is_made_and_drawn() -> None:
    drawn: dict[type, Chart] = {}
    for case in CASES:
        for section in fitted(case).result().sections:
            drawn |= {type(chart): chart for chart in section.charts}
    assert set(drawn) == set(Chart.__subclasses__())
    for chart in drawn.values():
        assert draw(chart).has_data()
        plt.close("all")
    with pytest.raises(TypeError, match="no drawing of Chart"):
        draw(Chart())


def test_the_report_asks_no_model_for_names() -> None:
    """Reports are written from results: nothing in their room looks attributes up by name, or casts."""
    folder = Path(dpcape.report.__file__).parent
    for path in folder.glob("*.py"):
        called = {
            node.func.id
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        assert not called & {"hasattr", "getattr", "setattr", "cast"}, path.name


def estimators() -> set[type[FederatedEstimator]]:
    return {type(case.make(1.0, 1e-5)) for case in CASES}


def test_fitted_names_are_those_of_the_list() -> None:
    """docs/results.md lists every fitted name with its meaning, once; no estimator has another."""
    text = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    part = text.split("## Names of fitted arrays")[1]
    listed = [name for row in re.findall(r"^\| (`.*?) \|", part, re.MULTILINE) for name in re.findall(r"`(\w+_)`", row)]
    assert len(set(listed)) == len(listed)
    used = {name for model in estimators() for name in model._fitted}
    assert used - set(listed) == set()
    assert set(listed) - used == set()


def test_one_thing_has_one_name() -> None:
    for model in estimators():
        for name in model._fitted:
            for spelling, others in OTHER_SPELLINGS.items():
                ends = tuple(f"_{other}" for other in others)
                assert name not in others, f"{model.__name__}.{name} must be {spelling}"
                assert not name.endswith(ends), f"{model.__name__}.{name} must end in {spelling}"


def test_what_is_bounded_on_neither_side_is_not_estimable() -> None:
    inf = math.inf
    assert interval(-inf, inf) == interval(0.0, inf) == NOT_ESTIMABLE
    assert interval(0.25, inf, decimals=2) == "0.25 or more"
    assert interval(-inf, 2.0) == "2 or less"
    assert interval(math.nan, math.nan) == ""
    assert interval("2020-01-01", "2021-01-01") == "2020-01-01 to 2021-01-01"


def ratio(**changed: Any) -> Estimates:
    known = {"quantity": "ratio", "estimand": "ratio of two numbers", "value": [2.0, 3.0], "names": ["a", "b"]}
    return Estimates(**{**known, **changed})


def test_tables_leave_out_what_is_empty_and_say_what_is_cut() -> None:
    table = table_of(list(ratio(low=[1.0, -math.inf], high=[4.0, math.inf], confidence=0.9).rows()))
    assert table.header == ["", "ratio", "90% interval"]
    assert table.rows[1] == ["b", "3", NOT_ESTIMABLE]
    many = table_of(list(ratio(value=np.arange(100.0), names=[str(at) for at in range(100)]).rows()))
    assert len(many.rows) == 60
    assert many.caption == "The first 60 of 100 figures; results.csv has all."
    unnamed = table_of(list(ratio(value=[2.0], names="").rows()))
    assert (unnamed.header, unnamed.rows) == (["", "estimate"], [["ratio", "2"]])


def test_kinds_with_too_many_figures_are_left_out_and_said_to_be() -> None:
    result = Result((Section(title="Weights", estimates=(ratio(value=np.zeros(20_001), names=""), ratio())),))
    assert len(result.rows) == 2
    assert "More than 20,000 figures" in result.to_text()
    assert "More than 20,000 figures" in result.to_latex()


def test_marks_of_latex_and_markdown_stay_marks() -> None:
    table = Table(["a_b", "50%"], [["x|y", "1&2"]], "caption_1")
    assert r"x\|y" in table.markdown()
    assert r"1\&2" in table.latex()
    assert r"caption\_1\par" in table.latex()
    section = Section(title="A & B", tables=(table,), notes=("50% of all",))
    latex = Result((section, Section(title="Other", notes=("said",)))).to_latex()
    assert r"\paragraph{A \& B}" in latex
    assert r"\par 50\% of all" in latex
