"""Write the page and the picture of the league from the stored figures.

Run: python -m experiments.league.page. It reads results/league.csv and writes docs/league.md and
docs/pictures/league.svg.
"""

from __future__ import annotations

import math
from pathlib import Path

from experiments.league.rivals import FROZEN
from experiments.league.run import stored

ROOT = Path(__file__).parents[2]
FIGURES = Path(__file__).with_name("results") / "league.csv"
PAGE, PICTURE = ROOT / "docs" / "league.md", ROOT / "docs" / "pictures" / "league.svg"
Line = tuple[str, ...]

HEAD = """# The league: dpcape against other private methods

<!-- Written by python -m experiments.league.page from experiments/league/results/league.csv. -->

Every method below is given the same records, pooled at one holder, and the same (epsilon, delta) for replacing one
record. So mechanisms are compared, not protocols. Noise is calibrated by the same exact Gaussian accountant, with two
exceptions that are stated. `make league` plays the contests that need no download; `make league LEAGUE="--data FOLDER"`
adds the others, and `make league LEAGUE=--quick` takes under two minutes. All noise is replayed from seeds.

* **Settings.** dpcape has its defaults everywhere ([where they come from](defaults.md)); variants are shown too. What a
  user of another method would have to choose was chosen once, on simulated records with seeds that no contest uses
  (`experiments/league/freeze.py`), and is the same in all contests: {settings}. The simulated contests are of the same
  kind as those records, so the other methods suit them best.
* **Exceptions.** Objective perturbation has a theorem of its own (Kifer, Smith and Thakurta 2012). diffprivlib 0.6.6
  guarantees pure epsilon, which is more than is asked, and has its own defaults; its PCA of 50 columns did not finish
  within two minutes. DP-SGD is Opacus 1.6.0 with its own accountant for added or removed records. It is given half of
  epsilon, because replacing a record is removing one and adding one. Its settings were fixed beforehand without a
  search (20 epochs, batches of 5%, clip 1, step 1). Both run in environments of their own.
* **As published** means the papers' post-processing with noise that is enough; the noise that the papers print is not
  ([The papers: what holds](papers/claims.md)).
* **Not in the table**: networks with convolutions, private selection of settings, and methods that need a public model
  or public records.
* A method is **first** if its mean over the runs is the best, and **tied** if it is within two standard errors of the
  best. Figures in bold are first or tied.

"""
EXPLAINED = {
    "mean": "CoinPress is told the variance of the columns, which dpcape is not. `recentre=True` finds a rough mean "
    "and the usual distance from it first; at epsilon 0.1 it finds that noise would hide the distances, and does not "
    "try.",
    "linear regression": "Losses are of rows clipped to the bound, in squared units of the response; where records "
    "are simulated, of new ones. DP-GD clips gradients at 0.03, inside the usual residuals, so its noise is small "
    "and it finds something like a median. That is right for the even residuals of the simulated records, on which "
    "its settings were chosen, and for Crime, and wrong for heavy tails: on BlogFeedback its loss stays at 171 from "
    "epsilon 1 on, where that of dpcape falls to 119. Clipping closer where noise is large was tried on other "
    "simulated records: it lowered losses with even residuals by up to 17% and raised those of counts by 5 to 21%. "
    "Smaller starts and steps had the same trade-off. Neither was taken over.",
    "logistic regression": "DP-GD's settings were chosen on records like the simulated ones, which are even in all "
    "directions, so nothing is gained by the moment on which dpcape spends 30% of mu^2. On Covertype, whose columns "
    "are very uneven, that moment decides. Averaging more rounds lowered losses of even, correlated and skewed "
    "records by up to 3% and raised those of separable ones by 2 to 6%; it was not taken over.",
    "joint ICA": "Time points are records. q_NGI is 0 for a perfect unmixing.",
    "mixture model": "Means are unit vectors of any angle. Methods that start at random can miss a component.",
    "classification": "Linear classifiers and the default network on pixels. dpcape's rounds, steps and momentum were "
    "chosen on training images of MNIST, and the step of small data sets without hidden units on these digits, so "
    "the data sets are not new to it. DP-SGD draws batches at random, which amplifies its privacy at one trusted "
    "holder. dpcape's batches are whole: the loss of random ones is not a mu, and ledgers could not add it up. [The "
    "network's page](analyses/network.md) has figures with public features.",
}


def error(line: Line) -> float:
    """Return the figure as an error: lower is better."""
    return float(line[8]) if line[3] == "lower" else 1 - float(line[8])


def standard_error(line: Line) -> float:
    """Return the standard error of the mean over runs."""
    return float(line[9]) / math.sqrt(int(line[7]))


def best_of(lines: list[Line]) -> list[Line]:
    """Return the lines that are first or tied."""
    first = min(lines, key=error)
    return [line for line in lines if error(line) - error(first) <= 2 * math.hypot(*map(standard_error, (line, first)))]


def ours(line: Line) -> bool:
    """Return whether a line is of dpcape."""
    return line[6].startswith("dpcape")


def groups(table: list[Line], *columns: int) -> dict[Line, list[Line]]:
    """Return lines grouped by columns, in order."""
    found: dict[Line, list[Line]] = {}
    for line in table:
        found.setdefault(tuple(line[column] for column in columns), []).append(line)
    return found


def default(lines: list[Line]) -> Line:
    """Return the line of dpcape's defaults, which comes first; its variants are shown, and do not count."""
    return next(filter(ours, lines))


def others(lines: list[Line]) -> list[Line]:
    """Return the lines of other methods."""
    return [line for line in lines if not ours(line)]


def standing(lines: list[Line]) -> str:
    """Return how dpcape's defaults stand in one contest at one epsilon: first, tied or behind."""
    own = default(lines)
    if not others(lines):
        return "alone"
    best = best_of([own, *others(lines)])
    if best == [own]:
        return "first"
    return "tied" if own in best else "behind"


def summary(table: list[Line]) -> str:
    """Return the table of standings by analysis, and where dpcape is behind."""
    rows = ["| analysis | first | tied | behind |", "|---|---|---|---|"]
    behind = []
    for (analysis,), lines in groups(table, 0).items():
        found = {key: standing(part) for key, part in groups(lines, 1, 5).items()}
        counts = [sum(value == word for value in found.values()) for word in ("first", "tied", "behind")]
        rows.append(f"| {analysis} | {' | '.join(map(str, counts))} |")
        behind += [(analysis, *key, groups(lines, 1, 5)[key]) for key, value in found.items() if value == "behind"]
    text = "## Who wins\n\nContests times epsilons in which dpcape's defaults are first, tied or behind, compared with "
    text += "methods that are not dpcape's:\n\n" + "\n".join(rows)
    text += "\n\n![Errors of dpcape over those of the best other method](pictures/league.svg)\n"
    if behind:
        text += "\ndpcape is behind here:\n\n"
    for analysis, data, epsilon, lines in behind:
        first, own = min(others(lines), key=error), default(lines)
        option = min(filter(ours, lines), key=error)
        text += f"* {analysis}, {data}, epsilon {epsilon}: {first[6]} {first[8]}, {own[6]} {own[8]}"
        text += f"; with an option, {option[6]} {option[8]}\n" if error(option) < error(first) else "\n"
    return text


def contest_table(lines: list[Line]) -> str:
    """Return the table of one contest: methods by epsilon."""
    epsilons = list(dict.fromkeys(line[5] for line in lines))
    best = {line for part in groups(lines, 5).values() for line in best_of(part)}
    about = lines[0]
    rows = [f"| {about[2]}, {about[3]} is better | " + " | ".join(f"epsilon {epsilon}" for epsilon in epsilons) + " |"]
    rows.append("|---" * (len(epsilons) + 1) + "|")
    for (method,), part in groups(lines, 6).items():
        cells = {line[5]: f"**{shown(line)}**" if line in best else shown(line) for line in part}
        rows.append(f"| {method} | " + " | ".join(cells.get(epsilon, "") for epsilon in epsilons) + " |")
    rows.append(f"| without privacy | {about[10]}" + " |" * len(epsilons))
    runs = sorted({int(line[7]) for line in lines})
    return (
        f"### {about[1]}\n\nDelta {about[4]}; means of {' or '.join(map(str, runs))} runs.\n\n" + "\n".join(rows) + "\n"
    )


def shown(line: Line) -> str:
    """Return the mean for a reader."""
    return f"{float(line[8]):.4g}"


def settings_text() -> str:
    """Return the frozen settings in words."""
    parts = []
    for name, options in FROZEN.items():
        values = ", ".join(f"{key.replace('n_', '')} {value}" for key, value in options.items())
        parts.append(f"{name} ({values})")
    return "; ".join(parts)


def page(table: list[Line]) -> str:
    """Return the page."""
    text = HEAD.format(settings=settings_text()) + summary(table)
    for (analysis,), lines in groups(table, 0).items():
        text += f"\n## {analysis[0].upper() + analysis[1:]}\n\n"
        if analysis in EXPLAINED:
            text += EXPLAINED[analysis] + "\n\n"
        text += "\n".join(contest_table(part) for part in groups(lines, 1).values())
    return text


def picture(table: list[Line], path: Path) -> None:
    """Draw the error of dpcape's defaults over that of the best other method, for every contest and epsilon."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams |= {"svg.hashsalt": "league", "svg.fonttype": "none"}
    import matplotlib.pyplot as plt

    contests = groups(table, 0, 1)
    figure, axes = plt.subplots(figsize=(9, 0.32 * len(contests) + 1), layout="constrained")
    for height, lines in enumerate(contests.values()):
        for number, part in enumerate(groups(lines, 5).values()):
            if not others(part):
                continue
            ratio = max(error(default(part)), 1e-9) / max(min(map(error, others(part))), 1e-9)
            colour = {"first": "#1b6e3c", "tied": "#888888", "behind": "#b3261e"}[standing(part)]
            axes.plot(min(max(ratio, 0.03), 3), -height, "o", color=colour, markersize=4 + 1.5 * number)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set(xscale="log", xlabel="error of dpcape / error of the best other method (larger dots: larger epsilon)")
    axes.set_yticks([-number for number in range(len(contests))], [f"{a}: {d[:48]}" for a, d in contests], fontsize=7)
    axes.set_xticks([0.03, 0.1, 0.3, 1, 3], ["0.03", "0.1", "0.3", "1", "3"])
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    table = stored(FIGURES)
    PAGE.write_text(page(table))
    picture(table, PICTURE)


if __name__ == "__main__":
    main()
