"""Run experiments cell by cell in separate processes; finished cells are cached even if others fail."""

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

from dpcape.core.errors import InvalidParameter
from dpcape_papers.experiments.cache import Cache, CachedRows, key_of
from dpcape_papers.experiments.data import DataFolder
from dpcape_papers.experiments.experiment import Cell, Experiment, RunSetting, Verdict
from dpcape_papers.experiments.folder import write_folder

_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
Cells = Mapping[str, Cell]


@dataclass
class Report:
    """The verdicts of one experiment, or its failures."""

    experiment: Experiment
    verdicts: list[Verdict] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


class Progress(Protocol):
    """Interface that receives progress."""

    def begin(self, experiment: Experiment, n_cells: int, n_kept: int) -> None:
        """Announce an experiment with ``n_cells`` cells, ``n_kept`` of them cached."""

    def advance(self, experiment: Experiment) -> None:
        """Count one more cell, finished or failed."""

    def end(self, report: Report) -> None:
        """Announce the end of an experiment."""


@dataclass
class _Work:
    """A running experiment: its cells by key, and the keys not yet computed."""

    report: Report
    cells: Cells
    missing: set[str]


@dataclass(frozen=True)
class _Place:
    """The data folder and the cache folder of the cells."""

    data: DataFolder
    cache: Path


def run(
    experiments: Sequence[Experiment], setting: RunSetting, out: Path, *, cache: Path, jobs: int, progress: Progress
) -> list[Report]:
    """Run experiments and write their folders; a failed cell is reported and does not stop the others.

    An interrupt loses only the cells being computed. Finished cells are cached, and the next run uses them.
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
    """Return the cells of an experiment, with the user's methods added to their options."""
    cells = experiment.cells(setting)
    if not setting.methods:
        return cells
    more = {"methods": list(setting.methods)}
    return [replace(cell, options={**cell.options, **more}) if cell.extendable else cell for cell in cells]


def _require_extendable(experiments: Sequence[Experiment], setting: RunSetting) -> None:
    closed = [one.name for one in experiments if not one.extendable]
    if setting.methods and closed:
        raise InvalidParameter(
            "--method",
            "be used only with experiments that accept methods",
            ", ".join(closed),
            "Choose experiments that dpcape reproduce --list marks with +.",
        )


def _begin(experiment: Experiment, setting: RunSetting, cache: Path, progress: Progress) -> _Work:
    report = Report(experiment)
    cells: dict[str, Cell] = {}
    try:
        cells = {key_of(cell, setting.data): cell for cell in cells_of(experiment, setting)}
    except Exception:
        report.failures.append(f"Listing its cells failed.\n{traceback.format_exc()}")
    missing = {key for key in cells if Cache(cache).load(key) is None}
    progress.begin(experiment, len(cells), len(cells) - len(missing))
    return _Work(report, cells, missing)


def _take(work: _Work, key: str, failure: str | None) -> None:
    work.missing.discard(key)
    if failure is not None:
        work.report.failures.append(f"Cell {dict(work.cells[key].options)} failed.\n{failure}")


def _end(work: _Work, setting: RunSetting, out: Path, cache: Path, progress: Progress) -> None:
    """Write the folder if no cell failed, and announce the end."""
    report = work.report
    if not report.failures:
        try:
            report.verdicts = write_folder(out, report.experiment, setting, list(_gather(work.cells, Cache(cache))))
        except Exception:
            report.failures.append(f"Drawing, judging or writing it failed.\n{traceback.format_exc()}")
    progress.end(report)


def _gather(cells: Cells, cache: Cache) -> Iterator[tuple[Cell, CachedRows]]:
    for key, cell in cells.items():
        kept = cache.load(key)
        if kept is None:
            raise FileNotFoundError(
                f"The rows of {dict(cell.options)} are no longer in the cache. Run the command again."
            )
        yield cell, kept


def _compute(todo: Cells, place: _Place, jobs: int) -> Generator[tuple[str, str | None]]:
    """Yield each cell's key with None, or with the text of its failure."""
    waiting = deque(todo.items())
    with _one_thread_each():
        while waiting:
            for key, cell in (yield from _drain(waiting, place, jobs)):
                # One of these cells ended its process. Run one by one, each can only end its own.
                if (yield from _drain(deque([(key, cell)]), place, 1)):
                    yield key, "Its process ended unexpectedly, possibly because memory ran out. Try a smaller --jobs."


def _drain(
    waiting: deque[tuple[str, Cell]], place: _Place, jobs: int
) -> Generator[tuple[str, str | None], None, list[tuple[str, Cell]]]:
    """Compute the waiting cells; return those that were running when a process ended unexpectedly."""
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
    except Exception:  # a result or error that cannot be pickled
        return traceback.format_exc()


def _work(key: str, cell: Cell, place: _Place) -> str | None:
    """Compute a cell and cache its rows; return None or the traceback. Runs in a worker process."""
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
    """Provide a pool of worker processes; if an exception is raised, end them at once."""
    others = set(multiprocessing.active_children())
    context = multiprocessing.get_context("forkserver")
    # Imported once, in the fork server.
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
    """Limit linear algebra in new processes to one thread: faster in parallel, and more reproducible."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
