"""Dates as numbers: days since 1 January 1970, with fractions for times of day."""

from __future__ import annotations

import datetime
import math
from typing import TypeGuard

import numpy as np

from dpcape.core.arrays import AnyArray, FloatArray
from dpcape.core.errors import InvalidParameter

_START = datetime.datetime(1970, 1, 1)
_DAY = datetime.timedelta(days=1)


def is_date_like(value: object) -> TypeGuard[str | datetime.date]:
    """Tell whether an end of a range is a date, or text that should be one."""
    return isinstance(value, str | datetime.date)


def day_of(value: object, *, subject: str) -> float:
    """Return a public date as a number of days; text is in ISO form, such as 2024-12-31."""
    day = lenient_day(value)
    if not math.isfinite(day):
        raise InvalidParameter(subject, "be a date such as '2024-12-31'", repr(value), "Write it in ISO form.")
    return day


def lenient_day(value: object) -> float:
    """Return an entry of a column as days: NaN where it is missing, infinite where it is no date."""
    if value is None or value != value:
        return math.nan
    try:
        moment = datetime.datetime.fromisoformat(value.strip()) if isinstance(value, str) else value
    except ValueError:
        return math.inf
    if not isinstance(moment, datetime.date):
        return math.inf
    if not isinstance(moment, datetime.datetime):
        moment = datetime.datetime(moment.year, moment.month, moment.day)
    if moment.tzinfo is not None:
        moment = moment.astimezone(datetime.UTC).replace(tzinfo=None)
    return (moment - _START) / _DAY


def to_days(values: AnyArray) -> FloatArray:
    """Return a column of dates as days: NaN where one is missing, infinite where an entry is no date."""
    if values.dtype.kind == "M":
        days = values.astype("datetime64[us]").astype(np.int64) / 86_400e6
        return np.where(np.isnat(values), math.nan, days)
    return np.fromiter((lenient_day(value) for value in values.tolist()), dtype=np.float64, count=len(values))
