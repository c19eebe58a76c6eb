"""Run a study in process: on local files, on site folders, or as a rehearsal on synthetic records."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path

from dpcape.core.enclosed import IN_THIS_PROCESS
from dpcape.core.errors import DpcapeError, Failed, InvalidParameter, LedgerRefused
from dpcape.core.files import write_text
from dpcape.core.noise import NoiseSource, OsNoise
from dpcape.core.privacy.ledger import Ledger, Spending
from dpcape.core.protocols.dealt_noise import DEALER
from dpcape.core.protocols.noise_dealer import NoiseDealer
from dpcape.core.secure_sum.identity import Identity
from dpcape.core.site import Site
from dpcape.federation.federation import Federation
from dpcape.federation.rebuilt import RebuiltFederation, ReleaseMissing
from dpcape.guarantee.release_record import ReleaseRecord
from dpcape.records.kinds import Records
from dpcape.runs.folder import RunFolder
from dpcape.runs.ledgers import LoggedLedger, RunLedger
from dpcape.runs.participants import participants
from dpcape.site.folder import SiteFolder
from dpcape.site.in_process import InProcess
from dpcape.site.statistic_laws import require_laws
from dpcape.study.study import Study

# Records of a rehearsed site if the study does not state them.
REHEARSED_RECORDS = 500
Progress = Callable[[ReleaseRecord], None]


def run_in_process(
    study: Study,
    out: str | Path,
    *,
    again: bool = False,
    rehearse: bool = False,
    resume: bool = False,
    noise: NoiseSource | None = None,
    progress: Progress | None = None,
) -> RunFolder:
    """Run a study and return its folder; a finished run is returned as it is.

    Parameters
    ----------
    study : Study
        The study to run.
    out : str or Path
        Where the run's folder is made.
    again : bool
        Start another run after one that was charged; it is charged too.
    rehearse : bool
        Use synthetic records of the declared shape; no file of a site is opened.
    resume : bool
        Continue a run that stopped, under its charge: rebuild its result from the releases that were kept, and ask
        the sites for those that were not begun.
    noise : NoiseSource or None
        For tests; with a Replay the result says "replayable: no protection".
    progress : Progress or None
        Called after each release.
    """
    if resume and (again or rehearse):
        got = f"{'again' if again else 'rehearse'} as well"
        raise InvalidParameter("resume", "be used alone", got, "Choose one of them.")
    run = RunFolder.begin(out, study, again=again, rehearsal=rehearse, resume=resume)
    if run.is_finished and not rehearse and not resume:
        return run
    with run.locked(), _discarded_if_refused(run):
        source = OsNoise() if noise is None else noise
        if resume:
            if not run.has_result or not run.is_readable():
                _resume(run, study, source, progress)
        elif rehearse or not run.has_result:
            if not rehearse:
                # Checked again under the lock: another process may have run here meanwhile.
                run.require_unspent()
                # Remove what an uncharged attempt left; this run opens a new allowance.
                shutil.rmtree(run.releases.folder, ignore_errors=True)
            _compute(run, study, rehearse, source, progress)
        finish(run)
    return run


def run_on_federation(study: Study, out: str | Path, *, again: bool = False, resume: bool = False) -> RunFolder:
    """Run a study on the engine it names and return its folder; a finished run is returned as it is.

    With ``resume`` the result is rebuilt from releases that were kept; for those that were not begun, a new job goes
    on under the same charge.
    """
    run = RunFolder.begin(out, study, again=again, resume=resume)
    if run.is_finished and not resume:
        return run
    with run.locked(), _discarded_if_refused(run):
        if resume and run.is_charged:
            if not run.has_result or not run.is_readable():
                # Form the result from kept releases, for free; ask the sites only for releases that were not begun.
                _require_kept(run)
                try:
                    _rebuild(run, study)
                except ReleaseMissing:
                    _run_on_engine(run, study)
        elif not run.has_result:
            run.require_unspent()
            _run_on_engine(run, study)
        finish(run)
    return run


@contextmanager
def _discarded_if_refused(run: RunFolder) -> Iterator[None]:
    """Leave no folder behind when a run is refused before anything was charged."""
    try:
        yield
    except DpcapeError:
        run.discard_if_refused()
        raise


def _run_on_engine(run: RunFolder, study: Study) -> None:
    # The engine is an extra; only a study that names it needs it.
    import_module("dpcape.engines.flare").run_study(study, run.path)


def finish(run: RunFolder) -> None:
    """Write the report of a run whose result is saved, and close its log."""
    from dpcape.runs.page import write_run_page
    from dpcape.runs.results import write_results

    write_text(run.path / "guarantee.json", run.model().guarantee_.to_json() + "\n")
    write_results(run)
    write_run_page(run)
    run.log("finished")


def _rebuild(run: RunFolder, study: Study) -> None:
    """Compute the result from the releases in the run's folder."""
    federation = RebuiltFederation(run.releases.folder)
    model = study.estimator().fit(federation)
    run.save(model, participants(federation, model, {}))
    run.log("rebuilt")


def _resume(run: RunFolder, study: Study, noise: NoiseSource, progress: Progress | None) -> None:
    """Form the result from kept releases without a charge; ask the sites only for releases that were not begun."""
    opened = run.releases.allowance()
    if opened is not None:
        with suppress(ReleaseMissing):
            return _rebuild(run, study)
    elif run.is_charged:
        _require_kept(run)
    _compute(run, study, False, noise, progress, allowance="" if opened is None else opened.terms.allowance)


def _require_kept(run: RunFolder) -> None:
    if run.releases.allowance() is None:
        what = f"The run in {str(run.path)!r} was charged but cannot be resumed"
        remedy = "Restore the folder from a backup, or start a new run with --again, which is charged separately."
        raise LedgerRefused(what, "its folder 'releases' is missing", remedy)


def _compute(
    run: RunFolder, study: Study, rehearse: bool, noise: NoiseSource, progress: Progress | None, allowance: str = ""
) -> None:
    def on_release(release: ReleaseRecord) -> None:
        run.log(
            "release",
            number=release.number + 1,
            of=release.n_releases,
            statistic=release.statistic,
            scale=release.scale,
            survivors=list(release.survivors),
        )
        if progress is not None:
            progress(release)

    federation = Federation(
        _sites(run, study, rehearse, noise, allowance),
        protocol=study.protocol(),
        weights=study.weights or None,
        deadline=study.deadline,
        on_release=on_release,
        seen_heads={} if rehearse else run.seen_heads(),
        releases=None if rehearse else run.releases,
        enclosure=study.enclosure,
        accept_large_delta=study.accept_large_delta,
    )
    run.log("formed", sites=federation.sites, protocol=repr(study.protocol()))
    model = study.estimator().fit(federation)
    heads = federation.ledger_heads()
    run.keep_heads(heads)
    run.save(model, participants(federation, model, heads))


def _sites(run: RunFolder, study: Study, rehearse: bool, noise: NoiseSource, allowance: str) -> InProcess:
    dealer = NoiseDealer(Identity.generate(), noise)
    members = {name: _member(run, study, name, rehearse, noise, allowance) for name in study.sites}
    identities = {name: site.identity.public for name, site in members.items()}
    # For a study on an engine only rehearsals run here; this dealer then replaces the one that the study names.
    dealer_name = study.dealer or DEALER
    identities[dealer_name] = dealer.identity.public
    dealer.pin(identities)
    for name, site in members.items():
        # A site folder uses the identities that its steward pinned; only this process's dealer is added.
        site.pin({**identities, **site.pinned} if _folder_of(study, name) and not rehearse else identities)
    return InProcess(members, dealer, dealer_name=dealer_name)


def _member(run: RunFolder, study: Study, name: str, rehearse: bool, noise: NoiseSource, allowance: str) -> Site:
    member = study.members[name]
    if rehearse:
        records = study.synthetic_records(name, member.records or REHEARSED_RECORDS)
        return _site(name, records, Ledger(), noise)
    folder = _folder_of(study, name)
    if folder is not None:
        try:
            site = SiteFolder(folder).site_for(study, noise=noise, allowance=allowance, contributor=IN_THIS_PROCESS)
        except DpcapeError as error:
            # Several site folders may be in one process: name the one that refused.
            raise error.at(name) from error
        site.ledger = LoggedLedger(site.ledger, run, name)
        return site
    if member.data is None:
        what, why = f"The site {name!r} cannot run in process", "the study names neither data nor a folder for it"
        raise Failed(what, why, f'Write data = "..." below [sites.{name}], or use --rehearse.')
    source = study.folder / member.data if isinstance(member.data, str) else member.data.source(study.folder)
    return _site(name, study.records_for(name, source), RunLedger(run, name), noise)


def _site(name: str, records: Records, ledger: Spending, noise: NoiseSource) -> Site:
    identity = Identity.generate()
    return Site(
        name, records, ledger=ledger, identity=identity, noise=noise, contributor=IN_THIS_PROCESS, laws=require_laws
    )


def _folder_of(study: Study, name: str) -> Path | None:
    folder = study.members[name].folder
    return None if folder is None else study.folder / folder
