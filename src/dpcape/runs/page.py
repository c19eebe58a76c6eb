"""The report of a run, written from the files in its folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from dpcape.core.arrays import BoolArray
from dpcape.core.privacy.ledger import spent_epsilon
from dpcape.core.protocols.registry import protocol_of
from dpcape.guarantee.card_content import LIMITS, STATUS, Card, card_of, tone_of
from dpcape.guarantee.card_ledger import RunCharges, decimal
from dpcape.guarantee.guarantee import NONE, Guarantee
from dpcape.pages.numbers import round_up
from dpcape.report.methods import methods_text, references
from dpcape.report.model_sections import arrays_section, result_sections, verdict_section
from dpcape.report.page import ReportSection, write_page
from dpcape.report.release_sections import noise_section, round_sections
from dpcape.tables import Table

if TYPE_CHECKING:
    from dpcape.estimators.estimator import FederatedEstimator
    from dpcape.runs.folder import RunFolder
    from dpcape.runs.participants import Participant

# What an audit of the run's study found, if one was made.
AUDIT = "audit.json"
_LARGEST_ARRAY = 2000


def write_run_page(run: RunFolder) -> None:
    """Write ``report.html`` of a run whose result is saved."""
    study, model, members = run.study(), run.model(), run.participants()
    guarantee = model.guarantee_
    warned = [*getattr(model, "warnings_", []), *(f"Uncertain: {text}" for text in getattr(model, "uncertain_", []))]
    write_page(
        run.path / "report.html",
        title=f"{study.name}: {study.description.in_words}",
        lead=_lead(study.description.in_words, members),
        kind="Rehearsal" if run.is_rehearsal else "Report of a run",
        banner=_banner(run, guarantee),
        facts=_facts(run, guarantee, members),
        guarantee=guarantee,
        card=run_card(run),
        sections=[
            *([ReportSection("Warnings", text=warned, tone="warning")] if warned else []),
            *_repeats(run, guarantee),
            *verdict_section(model.verdicts_),
            *result_sections(model.result(), inside=_mask(run), shape=study.data.shape),
            *round_sections(model.releases_),
        ],
        details=[
            _who(guarantee, members),
            noise_section(model.releases_),
            *_audited(run),
            *([] if warned else [ReportSection("Warnings", text=["There were no warnings during the run."])]),
            _cite(model, guarantee),
            arrays_section(model.fitted_arrays()),
        ],
        data=_data(run, model, members),
    )


def run_card(run: RunFolder) -> Card:
    """Return the card of a run whose result is saved."""
    model = run.model()
    return card_of(model.guarantee_, releases=model.releases_, charged=_charged(run, model.guarantee_))


def _charged(run: RunFolder, guarantee: Guarantee) -> RunCharges | None:
    """Return what the sites' ledgers were charged; None for a rehearsal, which costs nothing."""
    if run.is_rehearsal:
        return None
    study, n_earlier = run.study(), len(run.earlier())
    return RunCharges(
        before=_together(run, guarantee, n_earlier),
        after=_together(run, guarantee, n_earlier + 1),
        delta=guarantee.delta,
        n_earlier=n_earlier,
        # Sites in folders accept only each other's pinned identities, so either all have folders or none has.
        is_kept=study.federation is not None or all(member.folder for member in study.members.values()),
        unit=study.unit,
    )


def _together(run: RunFolder, guarantee: Guarantee, n_runs: int) -> float:
    """Return the epsilon of this many runs at the site charged most; every run was charged in full, used up or not."""
    study = run.study()
    return max(spent_epsilon([study.charge(site)] * n_runs, guarantee.delta) for site in guarantee.sites)


def _lead(title: str, members: Mapping[str, Participant]) -> str:
    n_records = sum(entry["records"] for entry in members.values())
    text = f"{title[0].upper()}{title[1:]} over {n_records:,} records"
    if len(members) == 1:
        return f"{text} of one site."
    return f"{text} of {len(members)} sites, computed jointly; no records left their site."


def _banner(run: RunFolder, guarantee: Guarantee) -> str:
    if run.is_rehearsal:
        return "REHEARSAL ON SYNTHETIC RECORDS: nothing here is about real people."
    if guarantee.status == NONE:
        return "No privacy: exact totals of every site were released."
    return "Replayable: the noise came from a seed. Nothing is protected." if guarantee.replayable else ""


def _facts(run: RunFolder, guarantee: Guarantee, members: Mapping[str, Participant]) -> list[tuple[str, str]]:
    finished = sum(bool(entry["took_part"]) for entry in members.values())
    described = protocol_of(guarantee.protocol)
    protocol, epsilon = guarantee.protocol if described is None else described.title, "no bound"
    if guarantee.status != NONE:
        status = STATUS[tone_of(guarantee)].lower()
        protocol = f"{protocol}, up to {guarantee.n_colluding} colluding"
        epsilon = f"epsilon {round_up(guarantee.epsilon)}, delta {decimal(guarantee.delta)} ({status})"
    return [
        ("Computed", _when(run)),
        ("By", ", ".join(members)),
        ("Sites that finished", f"{finished} of {len(members)}"),
        ("Protocol", protocol),
        (f"Privacy per {guarantee.unit}", epsilon),
        ("Digest of the study", run.study().digest()[:16]),
    ]


def _when(run: RunFolder) -> str:
    """Return when the result was saved; a page written again says the same."""
    times = {event["event"]: event["time"] for event in run.events() if "time" in event and "event" in event}
    stamp = times.get("saved", times.get("begun", ""))
    return f"{datetime.fromisoformat(stamp):%-d %B %Y, %H:%M} UTC" if stamp else "unknown"


def _repeats(run: RunFolder, guarantee: Guarantee) -> list[ReportSection]:
    """State the guarantee of this run together with earlier, charged runs of the same study."""
    n_earlier = 0 if run.is_rehearsal else len(run.earlier())
    if not n_earlier or guarantee.status == NONE:
        return []
    together = _together(run, guarantee, n_earlier + 1)
    limit = LIMITS[tone_of(guarantee)]
    text = (
        f"This study was charged {n_earlier} time{'s' if n_earlier > 1 else ''} before on the same records. "
        f"{f'{limit}: all' if limit else 'All'} runs together are ({round_up(together)}, "
        f"{round_up(guarantee.delta, 6)})-differentially private; the card below covers only this run."
    )
    return [ReportSection("This is a repeated run", text=[text], tone="warning")]


def _who(guarantee: Guarantee, members: Mapping[str, Participant]) -> ReportSection:
    rows = []
    for name, entry in members.items():
        site = guarantee.sites[name]
        took_part = "yes" if entry["took_part"] else "no"
        rows.append([name, str(entry["records"]), took_part, round_up(site.epsilon), entry["identity"]])
    header = ["site", "records", "finished", "epsilon", "identity (fingerprint)"]
    return ReportSection("Who took part", tables=[Table(header, rows)])


def _audited(run: RunFolder) -> list[ReportSection]:
    """Show what an audit of this study found on synthetic records; nothing if there was none."""
    path = run.path / AUDIT
    if not path.exists():
        return []
    findings = [entry for entry in json.loads(path.read_text("utf-8")) if entry["digest"] == run.study().digest()]
    if not findings:
        return []
    header, rows = ["adversary", "epsilon reached", "claimed", "reached / claimed", "finding"], []
    for entry in findings:
        claimed, finding = round_up(entry["claimed_epsilon"]), "REFUTED" if entry["refuted"] else "not refuted"
        reached = f"{entry['gaussian_epsilon']:.3f}"
        rows.append([entry["adversary"], reached, claimed, f"{entry['tightness']:.2f}", finding])
    first = findings[0]
    text = (
        f"The study was attacked on synthetic records: one {first['unit']} of {first['site']} replaced, "
        f"{first['n_trials']:,} trials with either, lower bounds at delta {decimal(first['delta'])}. A true guarantee "
        f"is refuted with probability at most {first['alpha']:g}. An audit can refute a guarantee, never prove it."
    )
    refuted = any(entry["refuted"] for entry in findings)
    return [ReportSection("Audit", text=[text], tables=[Table(header, rows)], tone="warning" if refuted else "")]


def _cite(model: FederatedEstimator, guarantee: Guarantee) -> ReportSection:
    text = [
        "Cite the software and the papers of the method, and quote the guarantee in full, with its assumptions. The "
        "first text below is a paragraph for the methods section of a paper."
    ]
    quotes = [methods_text(model), *references(model), guarantee.sentence()]
    return ReportSection("How to cite", text=text, quotes=quotes)


def _mask(run: RunFolder) -> BoolArray | None:
    """Return the study's public mask, if it names one for all columns and images can be read here."""
    masks = run.study().data.masks
    if len(masks) != 1 or masks[0] is None or find_spec("nibabel") is None:
        return None
    import nibabel

    image: Any = nibabel.load(masks[0])
    inside: BoolArray = np.asarray(image.dataobj) != 0
    return inside


def _data(run: RunFolder, model: FederatedEstimator, members: Mapping[str, Participant]) -> dict[str, object]:
    study = run.study()
    return {
        "study": study.name,
        "digest": study.digest(),
        "analysis": study.description.spelling,
        "parameters": {key: value for key, value in study.parameters.items() if not callable(value)},
        "rehearsal": run.is_rehearsal,
        "computed": _when(run),
        "guarantee": model.guarantee_.to_dict(),
        # Without ledger heads: reports are passed on, and the length of a ledger reveals a site's other studies.
        "participants": {
            name: {key: value for key, value in entry.items() if key != "ledger"} for name, entry in members.items()
        },
        "releases": [msgspec.to_builtins(release) for release in model.releases_],
        "warnings": list(getattr(model, "warnings_", [])),
        "assumptions": list(model.result().assumptions),
        "verdicts": [msgspec.to_builtins(verdict) for verdict in model.verdicts_],
        # Longer arrays are in model.npz only.
        "result": {
            name: array.tolist() for name, array in model.fitted_arrays().items() if array.size <= _LARGEST_ARRAY
        },
    }
