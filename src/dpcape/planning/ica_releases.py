"""What joint ICA releases. Projections and rotations depend on earlier results; shares, sizes and diameters do not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcape.errors import InvalidParameter
from dpcape.facts import Facts
from dpcape.planning.release import PlannedRelease, Setting
from dpcape.privacy.calibration import plan_release
from dpcape.privacy.gaussian import mu_of
from dpcape.privacy.terms import Terms
from dpcape.protocols import Protocol
from dpcape.statistics import (
    Statistic,
    fourth_moment,
    infomax_scores,
    reduced_second_moment,
    second_moment,
    subject_covariance,
    subject_infomax,
    subject_log_covariance,
    subject_polish,
    subject_projector,
    subject_tensor,
)

Options = Mapping[str, Any]
Planned = tuple[PlannedRelease, ...]


def record_moments(facts: Facts, options: Options, setting: Setting) -> Planned:
    """Reduction, whitening and one fourth moment, per time point."""
    from dpcape.estimators.joint_ica_stages import fourth_clip

    n = _checked(facts, options, setting)
    last = fourth_moment(facts, _directions(facts, n), clip=fourth_clip(n))
    return _by_record(facts, options, last, times=1)


def record_infomax(facts: Facts, options: Options, setting: Setting) -> Planned:
    """Reduction, whitening and one gradient per round, per time point."""
    from dpcape.estimators.joint_ica_stages import infomax_clips

    n = _checked(facts, options, setting)
    clip, bias_clip = infomax_clips(n)
    start: dict[str, Any] = {"unmixing": np.eye(n), "bias": np.zeros(n)}
    last = infomax_scores(facts, _directions(facts, n), **start, clip=clip, bias_clip=bias_clip)
    return _by_record(facts, options, last, times=options["n_iter"])


def _by_record(facts: Facts, options: Options, last: Statistic, *, times: int) -> Planned:
    from dpcape.estimators.joint_ica_stages import whitening_clip
    from dpcape.postprocessing.ica_budget import record_shares

    n, reduces = options["n_components"], _columns(facts, options) > options["n_components"]
    shares = record_shares(reduces=reduces, n_last=times)
    before: list[Statistic] = [_first_moment(facts, options)]
    if reduces:
        before.append(reduced_second_moment(facts, _directions(facts, n), clip=whitening_clip(n)))
    return (*map(PlannedRelease, before, shares), PlannedRelease(last, shares[-1], times))


def _first_moment(facts: Facts, options: Options) -> Statistic:
    columns = _columns(facts, options)
    if options["n_basis"] is None and columns > options["n_components"]:
        return second_moment(facts)
    return reduced_second_moment(facts, _directions(facts, columns), clip=math.hypot(*facts.bounds))


def subject_moments(facts: Facts, options: Options, setting: Setting) -> Planned:
    """Reduction, whitening, one tensor and its polish, per person."""
    from dpcape.postprocessing.ica_budget import N_POLISH_ROUNDS, subject_shares

    n = _checked(facts, options, setting)
    total, mu = sum(setting.sizes.values()), mu_of(float(setting.epsilon), setting.delta)
    shares = subject_shares(total, mu, reduces=_columns(facts, options) > n, polishes=True)
    terms = setting.terms(facts, shares)
    before = _before(facts, options, terms, setting.protocol)
    narrow, still = _directions(facts, n), np.eye(n)
    return (
        *map(PlannedRelease, before, shares),
        PlannedRelease(subject_tensor(facts, narrow, still), shares[len(before)]),
        PlannedRelease(subject_polish(facts, narrow, still, rotation=still), shares[-1], N_POLISH_ROUNDS),
    )


def subject_rounds(facts: Facts, options: Options, setting: Setting) -> Planned:
    """Reduction, whitening and one gradient per round, per person."""
    from dpcape.estimators.joint_ica_stages import subject_infomax_clip
    from dpcape.postprocessing.ica_budget import subject_infomax_shares

    n = _checked(facts, options, setting)
    times = options["n_iter"]
    shares = subject_infomax_shares(reduces=_columns(facts, options) > n, n_iter=times)
    before = _before(facts, options, setting.terms(facts, shares), setting.protocol)
    start: dict[str, Any] = {"unmixing": np.eye(n), "bias": np.zeros(n)}
    clip = subject_infomax_clip(n, options["n_timepoints"])
    last = subject_infomax(facts, _directions(facts, n), np.eye(n), **start, clip=clip)
    return (*map(PlannedRelease, before, shares), PlannedRelease(last, shares[-1], times))


def _before(facts: Facts, options: Options, terms: Terms, protocol: Protocol) -> list[Statistic]:
    """Return what is released before the rotation; clip radii of covariances follow from the noise so far."""
    from dpcape.estimators.joint_ica_stages import LEFT_BY_LOGS, LOG_CLIP, covariance_clip
    from dpcape.postprocessing.ica_budget import N_COVARIANCE_ROUNDS

    n, columns, n_timepoints = options["n_components"], _columns(facts, options), options["n_timepoints"]
    narrow, asked = _directions(facts, n), list[Statistic]()
    if columns > n:
        asked.append(subject_projector(facts, _directions(facts, columns), n_components=n))
    asked.append(subject_log_covariance(facts, narrow, clip=LOG_CLIP))
    residual = LEFT_BY_LOGS
    for _ in range(N_COVARIANCE_ROUNDS):
        plan = plan_release(terms, len(asked) - 1, asked[-1], protocol)
        scale = plan.sum_scale(terms.sites) / terms.divisor(terms.sites)
        clip = covariance_clip(n, n_timepoints, scale, residual=residual)
        asked.append(subject_covariance(facts, narrow, np.eye(n), clip=clip))
        residual = 0.0
    return asked


def _columns(facts: Facts, options: Options) -> int:
    given = options["n_basis"]
    return facts.n_features if given is None else int(given)


def _directions(facts: Facts, n_columns: int) -> NDArray[np.float64]:
    """Return a projection of the right shape; its entries do not enter any plan, so none is stored."""
    return np.broadcast_to(0.0, (facts.n_features, n_columns))


def _checked(facts: Facts, options: Options, setting: Setting) -> int:
    """Refuse, in the words of ``JointICA``, what it would refuse; return the number of components."""
    setting.terms(facts, (1.0,))
    n, total = options["n_components"], sum(setting.sizes.values())
    _require("n_components", n, 2, facts.n_features)
    if options["n_basis"] is not None:
        _require("n_basis", options["n_basis"], n, facts.n_features)
    if "n_timepoints" in options:
        _require("n_timepoints", options["n_timepoints"], n + 1, 10**9)
    if "n_iter" in options:
        _require("n_iter", options["n_iter"], 1, 10**6)
    if facts.unit == "subject" and total < 2:
        raise InvalidParameter("subjects must be at least two to hide one among others; got one. Use more subjects.")
    if facts.unit == "record" and total <= n:
        raise InvalidParameter(
            f"time points must be more than the {n} components; got {total}. Ask for fewer components."
        )
    return int(n)


def _require(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise InvalidParameter(f"{name} must be a whole number from {least} to {most} here; got {value!r}.")
