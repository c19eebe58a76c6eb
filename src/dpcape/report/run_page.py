"""The page of a run, written from its folder alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dpcape.privacy.guarantee import Guarantee, round_up
from dpcape.privacy.ledger import spent_epsilon
from dpcape.report.model_sections import model_sections
from dpcape.report.page import Section, Table, write_page

if TYPE_CHECKING:
    from dpcape.run_folder import RunFolder


def write_run_page(run: RunFolder) -> None:
    """Write ``report.html`` of a run whose result is saved."""
    study, model, members = run.study(), run.model(), run.participants()
    guarantee = model.guarantee_
    names = [str(name) for name in getattr(model, "feature_names_in_", [])]
    write_page(
        run.path / "report.html",
        title=f"{study.name}: {study.analysis.replace('_', ' ')}",
        lead=_lead(run, members),
        guarantee=guarantee,
        sections=[*_repeats(run, guarantee), *model_sections(model, names), _releases(model), _who(guarantee, members)],
        data={
            "study": study.name,
            "digest": study.digest(),
            "analysis": study.analysis,
            "rehearsal": run.is_rehearsal,
            "guarantee": guarantee.to_dict(),
            "participants": members,
        },
    )


def _lead(run: RunFolder, members: Mapping[str, Any]) -> str:
    n_records = sum(entry["records"] for entry in members.values())
    text = f"{len(members)} sites with {n_records} records together."
    if run.is_rehearsal:
        return f"REHEARSAL ON MADE-UP RECORDS: nothing here is about real people. {text}"
    return text


def _repeats(run: RunFolder, guarantee: Guarantee) -> list[Section]:
    """Say what this run and earlier, charged ones of the same study promise together."""
    n_earlier = 0 if run.is_rehearsal else len(run.earlier())
    if not n_earlier or guarantee.status == "no guarantee":
        return []
    # Every run was charged in full, used up or not.
    charges = {site: [run.study().charge(site)] * (n_earlier + 1) for site in guarantee.sites}
    together = max(spent_epsilon(paid, guarantee.delta) for paid in charges.values())
    text = (
        f"This study was charged {n_earlier} time{'s' if n_earlier > 1 else ''} before on the same records. All runs "
        f"together are ({round_up(together)}, {round_up(guarantee.delta, 6)})-differentially private; the card above "
        "is about this run alone."
    )
    return [Section("This is a repeated run", text=[text])]


def _releases(model: Any) -> Section:
    rows = [
        [str(release.number + 1), release.statistic.replace("_", " "), f"{release.scale:.4g}", str(release.n_records)]
        for release in model.releases_
    ]
    shown = rows if len(rows) <= 24 else [*rows[:12], ["...", "", "", ""], *rows[-11:]]
    header = ["release", "statistic", "standard deviation of the noise in the mean", "records"]
    return Section("What was released", tables=[Table(header, shown)])


def _who(guarantee: Guarantee, members: Mapping[str, Any]) -> Section:
    rows = []
    for name, entry in members.items():
        site = guarantee.sites[name]
        took_part = "yes" if entry["took_part"] else "no"
        rows.append([name, str(entry["records"]), took_part, round_up(site.epsilon), entry["identity"]])
    header = ["site", "records", "took part", "epsilon", "identity"]
    return Section("Who took part", tables=[Table(header, rows)])
