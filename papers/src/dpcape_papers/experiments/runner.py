"""Runs experiments cell by cell in processes of their own; finished cells are kept, whatever happens to the rest."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
import traceback
import warnings
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from dpcape.errors import InvalidParameter
from dpcape_papers.experiments.cache import Cache, CachedRows, key_of
from dpcape_papers.experiments.data import DataFolder
from dpcape_papers.experiments.experiment import Cell, Experiment, RunSetting, Verdict
from dpcape_papers.experiments.folder import write_folder

_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
Cells = Mapping[str, Cell]


@dataclass
class Report:
    """What became of one experiment."""

    experiment: Experiment
    verdicts: list[Verdict] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


class Progress(Protocol):
    """Who is told how far the work is."""

    def begin(self, experiment: Experiment, n_cells: int, n_kept: int) -> None:
        """Announce an experiment of so many cells, some of which are there already."""

    def advance(self, experiment: Experiment) -> None:
        """Count one more cell, done or failed."""

    def end(self, report: Report) -> None:
        """Take note that an experiment is through."""


@dataclass
class _Work:
    """An experiment under way: its cells by key, and the keys still to come."""

    report: Report
    cells: Cells
    missing: set[str]


@dataclass(frozen=True)
class _Place:
    """Where cells find their data and leave their rows."""

    data: DataFolder
    cache: Path


def run(
    experiments: Sequence[Experiment], setting: RunSetting, out: Path, *, cache: Path, jobs: int, progress: Progress
) -> list[Report]:
    """Run experiments and write their folders; a cell that fails is reported and stops no other.

    An interrupt loses only the cells that are being computed: everything finished is kept and found again.
    """
    _require_extendable(experiments, setting)
    works = [_begin(one, setting, cache, progress) for one in experiments]
    for work in works:
        if not work.missing:
            _end(work, setting, out, cache, progress)
    todo = {key: work.cells[key] for work in works for key in work.cells if key in work.missing}
    with closing(_compute(todo, _Place(setting.data, cache), jobs)) as outcomes:
        for key, failure in outcomes:
            for work in (one for one in works if key in one.missing):
                _take(work, key, failure)
                progress.advance(work.report.experiment)
                if not work.missing:
                    _end(work, setting, out, cache, progress)
    return [work.report for work in works]


def cells_of(experiment: Experiment, setting: RunSetting) -> list[Cell]:
    """Return the cells of an experiment, with the user's own methods among their options."""
    cells = experiment.cells(setting)
    if not setting.methods:
        return cells
    return [replace(cell, options={**cell.options, "methods": list(setting.methods)}) for cell in cells]


def _require_extendable(experiments: Sequence[Experiment], setting: RunSetting) -> None:
    closed = [one.name for one in experiments if not one.extendable]
    if setting.methods and closed:
        raise InvalidParameter(
            f"--method must be used with experiments that compare methods; got {', '.join(closed)}. "
            "dpcape reproduce --list marks them with +."
        )


def _begin(experiment: Experiment, setting: RunSetting, cache: Path, progress: Progress) -> _Work:
    report = Report(experiment)
    cells: dict[str, Cell] = {}
    try:
        cells = {key_of(cell, setting.data): cell for cell in cells_of(experiment, setting)}
    except Exception:
        report.failures.append(f"its cells could not be listed\n{traceback.format_exc()}")
    missing = {key for key in cells if Cache(cache).load(key) is None}
    progress.begin(experiment, len(cells), len(cells) - len(missing))
    return _Work(report, cells, missing)


def _take(work: _Work, key: str, failure: str | None) -> None:
    work.missing.discard(key)
    if failure is not None:
        work.report.failures.append(f"cell {dict(work.cells[key].options)}\n{failure}")


def _end(work: _Work, setting: RunSetting, out: Path, cache: Path, progress: Progress) -> None:
    """Write the folder if all cells are there."""
    report = work.report
    if not report.failures:
        try:
            report.verdicts = write_folder(out, report.experiment, setting, list(_gather(work.cells, Cache(cache))))
        except Exception:
            report.failures.append(f"it could not be drawn, judged or written\n{traceback.format_exc()}")
    progress.end(report)


def _gather(cells: Cells, cache: Cache) -> Iterator[tuple[Cell, CachedRows]]:
    for key, cell in cells.items():
        kept = cache.load(key)
        if kept is None:
            raise FileNotFoundError(f"the rows of {dict(cell.options)} are no longer in the cache; run again")
        yield cell, kept


def _compute(todo: Cells, place: _Place, jobs: int) -> Generator[tuple[str, str | None]]:
    """Yield each cell's key with None, or with what went wrong."""
    waiting = deque(todo.items())
    with _one_thread_each():
        while waiting:
            for key, cell in (yield from _drain(waiting, place, jobs)):
                # One of these took its process down: alone, each can only take down itself.
                if (yield from _drain(deque([(key, cell)]), place, 1)):
                    yield key, "its process died, for want of memory perhaps"


def _drain(
    waiting: deque[tuple[str, Cell]], place: _Place, jobs: int
) -> Generator[tuple[str, str | None], None, list[tuple[str, Cell]]]:
    """Compute what waits; return the cells that were being computed when a process died."""
    running: dict[Future[str | None], tuple[str, Cell]] = {}
    with _pool(jobs) as pool:
        try:
            while waiting or running:
                while waiting and len(running) < jobs:
                    future = pool.submit(_work, *waiting[0], place)
                    running[future] = waiting.popleft()
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    failure = _result(future)
                    yield running.pop(future)[0], failure
        except BrokenProcessPool:
            return list(running.values())
    return []


def _result(future: Future[str | None]) -> str | None:
    try:
        return future.result()
    except BrokenProcessPool:
        raise
    except Exception:  # what does not travel between processes
        return traceback.format_exc()


def _work(key: str, cell: Cell, place: _Place) -> str | None:
    """Compute a cell and keep its rows; in a process of its own."""
    cache = Cache(place.cache)
    if cache.load(key) is not None:
        return None
    start = time.process_time()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            rows = cell.compute(place.data, **cell.options)
        texts = sorted({f"{entry.category.__name__}: {entry.message}" for entry in caught})
        cache.store(key, CachedRows(rows=rows, seconds=time.process_time() - start, warnings=texts))
    except Exception:
        return traceback.format_exc()
    return None


@contextmanager
def _pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that share nothing with this one; on the way out by an exception they are ended at once."""
    others = set(multiprocessing.active_children())
    context = multiprocessing.get_context("forkserver")
    # Imported once, in the server the processes are forked from.
    context.set_forkserver_preload([__name__])
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_leave_interrupts_to_the_parent)
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in set(multiprocessing.active_children()) - others:
            child.terminate()
        raise
    pool.shutdown()


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Let linear algebra in new processes use one thread: faster together, and results depend less on the machine."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
