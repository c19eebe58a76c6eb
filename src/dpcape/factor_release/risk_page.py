"""The risk report as one self-contained page with pictures."""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib.resources import files

import jinja2
import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dpcape.factor_release.attack_result import FIND
from dpcape.factor_release.risk import Measured, RiskAtLeak, RiskReport
from dpcape.factor_release.risk_words import assumed_words, headline_words, kind_words, percent, sections, short_words
from dpcape.pages.style import COLOURS, stylesheet
from dpcape.pages.svg import svg_of

# The page turns black into its ink, and these two into its own shades of them.
INK, BLUE, ORANGE = "#000000", COLOURS[0], COLOURS[1]


def _bars(
    axes: Axes, report: RiskReport, groups: list[tuple[str, list[Measured | None], str]], ceiling: float = math.inf
) -> None:
    """Draw one group of bars per attack over the numbers of leaked records, with the chance level of each.

    Values are written above their bars, and above ``ceiling`` where they would lie on it.
    """
    width = 0.8 / len(groups)
    for g, (label, values, colour) in enumerate(groups):
        for i, measured in enumerate(values):
            if measured is None:
                continue
            x = i - 0.4 + width * (g + 0.5)
            hatch = "///" if g else None  # distinguishable without colour
            name = label if i == 0 else None
            axes.bar(x, measured.value, width * 0.92, color=colour, label=name, hatch=hatch, edgecolor="white")
            axes.errorbar(x, measured.value, yerr=2 * np.nan_to_num(measured.standard_error), color=INK, capsize=3)
            top = max(measured.value, 0) + 2 * float(np.nan_to_num(measured.standard_error)) + 0.02
            top = ceiling + 0.02 if top - 0.02 < ceiling < top + 0.1 else top
            axes.text(x, top, f"{measured.value:.2f}", ha="center", va="bottom", color=INK, fontsize=9)
            axes.hlines(measured.chance, x - width / 2, x + width / 2, color=INK, linestyles="dotted", linewidth=2)
    axes.set_xticks(range(len(report.leaks)), [f"m = {leak.leaked_rule}" for leak in report.leaks])
    axes.set_ylim(min(0.0, axes.get_ylim()[0]), 1.15)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel("records known to the adversary")


def _figure() -> tuple[Figure, Axes]:
    figure = Figure(figsize=(5.6, 3.1), layout="constrained")
    return figure, figure.subplots()


def reconstruction_picture(report: RiskReport) -> Figure:
    """Picture of the reconstruction attack, with the ceiling."""
    figure, axes = _figure()
    rebuilt = [leak.reconstruction for leak in report.leaks]
    _bars(axes, report, [("rebuilt from leaked records", [*rebuilt], BLUE)], report.ceiling)
    axes.axhline(report.ceiling, color=ORANGE, linestyle="--", label=f"ceiling {report.ceiling:.2f}")
    axes.set_ylabel("R² of others' features")
    axes.legend(frameon=False, fontsize=9, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    return figure


def identification_picture(report: RiskReport) -> Figure:
    """Picture of the re-identification rates."""
    by_all, by_few = zip(*((leak.identified_all, leak.identified_few) for leak in report.leaks), strict=True)
    return _by_features(report, [*by_all], [*by_few], "share of people found")


def membership_picture(report: RiskReport) -> Figure:
    """Picture of membership inference."""
    by_all, by_few = zip(*((leak.membership_all, leak.membership_few) for leak in report.leaks), strict=True)
    return _by_features(report, [*by_all], [*by_few], "area under the curve")


def _by_features(
    report: RiskReport, by_all: list[Measured | None], by_few: list[Measured | None], label: str
) -> Figure:
    """Picture of an attack by adversaries who know all features of a person, or a few."""
    figure, axes = _figure()
    few = f"adversary knows {report.n_few} features"
    _bars(axes, report, [("adversary knows all features", by_all, BLUE), (few, by_few, ORANGE)])
    axes.set_ylabel(label)
    axes.legend(frameon=False, fontsize=9, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    return figure


def _reconstruction_words(report: RiskReport, leak: RiskAtLeak) -> str:
    return (
        f"With {leak.n_leaked} known records the adversary rebuilds {percent(max(leak.reconstruction.value, 0.0))} of "
        f"the variance of other people's features; the ceiling is {percent(report.ceiling)}."
    )


def _identification_words(report: RiskReport, leak: RiskAtLeak) -> str:
    return (
        f"With {leak.n_leaked} known records {percent(leak.identified_all.value)} of people are found by all "
        f"features and {percent(leak.identified_few.value)} by {report.n_few}; "
        f"guessing finds {percent(leak.identified_all.chance)}."
    )


def _membership_words(leak: RiskAtLeak, measured: Measured) -> str:
    return (
        f"With {leak.n_leaked} known records a member is told from a non-member with probability "
        f"{measured.value:.2f} by all features; guessing reaches 0.50."
    )


def _pictures(report: RiskReport) -> list[dict[str, str]]:
    """Pair each picture with its title and its description in words."""
    last = report.leaks[-1]
    rows: list[tuple[str, Callable[[RiskReport], Figure], str]] = [
        ("Rebuilding other people's features", reconstruction_picture, _reconstruction_words(report, last)),
        ("Finding a person among the released rows", identification_picture, _identification_words(report, last)),
    ]
    measured = [(leak, leak.membership_all) for leak in report.leaks if leak.membership_all is not None]
    if measured:
        words = _membership_words(*measured[-1])
        rows.append(("Telling whether a person is in the release", membership_picture, words))
    return [
        {"title": title, "svg": svg_of(draw(report), alt=words, prefix=f"f{number}-"), "words": words}
        for number, (title, draw, words) in enumerate(rows)
    ]


def risk_page(report: RiskReport) -> str:
    """Return the page as HTML text; nothing is loaded from elsewhere."""
    source = files("dpcape.factor_release").joinpath("risk_page.html").read_text(encoding="utf-8")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    environment.filters |= {
        "percent": percent,
        "headline": headline_words,
        "assumed": assumed_words,
        "short": short_words,
        "kind": kind_words,
    }
    return environment.from_string(source).render(
        report=report,
        pictures=_pictures(report) if report.leaks else [],
        sections=sections(report.attacks),
        unique=sorted(
            (attack for attack in report.attacks if attack.goal == FIND and attack.n_unique is not None),
            key=lambda attack: "roughly" in attack.knows,
        ),
        style=Markup(stylesheet()),
    )
