"""Verdicts on claims that depend on CH, an index that grows with the number of records and of their copies."""

from __future__ import annotations

from dpcape_papers.experiments.authors_setting import NOTHING
from dpcape_papers.experiments.experiment import Verdict
from dpcape_papers.experiments.results import PUBLISHED, VERIFIED, Results
from dpcape_papers.figures.cca.methods import CH, KEPT, OWN_RECORDS, RATIO
from dpcape_papers.figures.cca.utility import KINDS, OPTIMUM, REACHED, along
from dpcape_papers.verdicts import Curve, Yardstick, outcome_of, ratios, trend

_MEASURES = "CH of K-means on the projections measures how good the CCA subspaces are."


def own_records(results: Results, where: str) -> Verdict:
    """Judge CH of a site's directions on that site's records only, as in the authors' scripts."""
    index = results.where(measure=CH)
    pairs = ratios(index, Curve(OWN_RECORDS, PUBLISHED), Curve("local", PUBLISHED))
    values = [value for points in pairs.values() for value in points.values()]
    claim = "A low CH of local means worse directions (the authors' scripts compute it on the site's records)."
    if not values:
        return Verdict(claim, where, "not shown", NOTHING)
    numbers = (
        f"on one site's records the same directions have {100 * min(values):.0f}% to {100 * max(values):.0f}% of their "
        "CH on all records: CH grows with the number of records"
    )
    return Verdict(claim, where, outcome_of(sum(value > 0.8 for value in values), len(values)), numbers)


def index_measures(results: Results, where: str) -> Verdict:
    """Compare the separation of clusters with the correlation retained, at all private points with clusters."""
    curves = [Curve(name, kind) for kind in KINDS for name in ("CAPE", "conventional", "local")]
    shares, kept = [], []
    for curve in curves:
        clusters = results.where(measure=RATIO)
        of_panels = ratios(clusters, curve, OPTIMUM)
        correlation = ratios(Results(r for r in results.where(measure=KEPT) if r["panel"] in of_panels), curve, OPTIMUM)
        if of_panels.keys() - correlation.keys():
            # The authors' scripts do not measure the correlation.
            return Verdict(_MEASURES, where, "not shown", NOTHING)
        shares += [value for points in of_panels.values() for value in points.values()]
        kept += [value for points in correlation.values() for value in points.values()]
    misled = [(share, part) for share, part in zip(shares, kept, strict=True) if share >= REACHED > part]
    numbers = (
        f"of {len(shares)} private points, {len(misled)} reach 95% of the non-private separation without 95% of its "
    )
    numbers += "correlation" + (f" (as little as {100 * min(part for _, part in misled):.0f}%)" if misled else "")
    agreed = [not (share >= REACHED > part) for share, part in zip(shares, kept, strict=True) if share >= REACHED]
    return Verdict(_MEASURES, where, outcome_of(sum(agreed), len(agreed)), numbers)


def index_grows(rows: Results, where: str) -> Verdict:
    """Judge whether clusters are separated better when CH of the non-private result grows with N or copies."""
    coarse = Yardstick("larger", tolerance=0.05)
    index, separation = (trend(rows.where(measure=measure), OPTIMUM, coarse) for measure in (CH, RATIO))
    claim = "A larger CH at larger N means better clusters (non-private CCA)."
    return Verdict(
        claim, where, separation.outcome, f"CH: {index}; ratio of spread between to within clusters: {separation}"
    )


def copies(rows: Results, where: str) -> Verdict:
    """Judge repeated records: they lower the noise only if copies are counted as people."""
    found = {kind: along(rows, Curve("CAPE", kind)) for kind in KINDS}
    published = Curve("CAPE", PUBLISHED).of(rows)
    real, claimed = published.numbers("verified_epsilon"), sorted(set(published.numbers("claimed_epsilon")))
    numbers = "; ".join(f"{kind}: separation {one}" for kind, one in found.items())
    numbers += (
        f"; claimed epsilon {', '.join(f'{value:g}' for value in claimed)}, real {min(real):.3g} to {max(real):.3g}"
    )
    claim = "Repeating the samples p times improves capeCCA at the same epsilon."
    return Verdict(claim, where, found[VERIFIED].outcome, numbers)
