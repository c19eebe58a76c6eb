"""Report sections about releases: their noise, and learning curves."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpcape.guarantee.release_record import ReleaseRecord
from dpcape.report.drawing import figure_of
from dpcape.report.page import Picture, ReportSection
from dpcape.report.release_plots import rounds, signal_bars
from dpcape.tables import Table

_SHOWN_RELEASES, _FEWEST_ROUNDS = 24, 3
_MEANING = (
    "Noise was added to every number. The table compares the norm of each release (the root of the sum of squares) "
    "with the norm that noise alone would have on average. A long release is no finding: whether a result says more "
    "than noise and sampling would is judged for each quantity, above."
)
_WITHOUT = "No noise was added: exact totals were released."


def noise_section(releases: Sequence[ReleaseRecord]) -> ReportSection:
    """Return the section that compares the norms of releases with those of their noise."""
    header = [
        "release",
        "statistic",
        "numbers",
        "noise, standard deviation",
        "norm of the release",
        "norm of noise alone",
    ]
    rows = [_row(release) for release in releases]
    shown = rows if len(rows) <= _SHOWN_RELEASES else [*rows[:12], ["..."] + [""] * 5, *rows[-11:]]
    text = [_MEANING] if any(release.scale for release in releases) else [_WITHOUT]
    few = len(releases) <= 6 and all(release.length is not None for release in releases)
    pictures = [_bars(releases)] if few else []
    return ReportSection("Noise of the releases", text=text, pictures=pictures, tables=[Table(header, shown)])


def round_sections(releases: Sequence[ReleaseRecord]) -> list[ReportSection]:
    """Return a learning curve for every statistic that is a step of an iteration."""
    names = dict.fromkeys(release.statistic for release in releases)
    # Steps of an iteration, whose norm shows how far the fit is from converged.
    steps = [name for name in names if "gradient" in name or "score" in name]
    groups = [[release for release in releases if release.statistic == name] for name in steps]
    return [_rounds(group) for group in groups if len(group) >= _FEWEST_ROUNDS and group[0].length is not None]


def noise_length(release: ReleaseRecord) -> float:
    """Return the norm that noise alone would have: the root of its expected square."""
    return release.scale * math.sqrt(release.size - 1)


def _row(release: ReleaseRecord) -> list[str]:
    return [
        str(release.number + 1),
        release.statistic.replace("_", " "),
        str(release.size) if release.size else "",
        f"{release.scale:.3g}",
        "" if release.length is None else f"{release.length:.3g}",
        f"{noise_length(release):.3g}" if release.size else "",
    ]


def _bars(releases: Sequence[ReleaseRecord]) -> Picture:
    names = [f"{release.number + 1}: {release.statistic.replace('_', ' ')}" for release in releases]
    lengths = [release.length or 0.0 for release in releases]
    noises = [noise_length(release) for release in releases]
    alt = "; ".join(
        f"release {name}: norm {length:.3g}, noise alone {noise:.3g}"
        for name, length, noise in zip(names, lengths, noises, strict=True)
    )
    return Picture(
        figure_of(signal_bars(names, lengths, noises)),
        f"Norm of each release and of noise alone. {alt}.",
        "Norm of each release and of noise alone.",
    )


def _rounds(releases: Sequence[ReleaseRecord]) -> ReportSection:
    name = releases[0].statistic.replace("_", " ")
    lengths = [release.length or 0.0 for release in releases]
    noises = [noise_length(release) for release in releases]
    picture = Picture(
        figure_of(rounds(lengths, noises, f"norm of the {name}")),
        f"Norm of the {name} over {len(releases)} rounds, from {lengths[0]:.3g} to {lengths[-1]:.3g}; noise alone "
        f"{noises[0]:.3g}.",
        "Close to the dashed line, a round changes the model by noise alone.",
    )
    text = f"The norm of what the {len(releases)} rounds released ({name}) decreases as the fit converges."
    return ReportSection("Learning curve", text=[text], pictures=[picture])
