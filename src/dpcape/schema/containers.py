"""What ``transform`` returns: arrays, or tables of pandas or polars, chosen as in scikit-learn, which is not loaded."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from dpcape.core.arrays import FloatArray
from dpcape.core.errors import InvalidParameter

DEFAULT = "default"
_CONTAINERS = (DEFAULT, "pandas", "polars")


def check_container(name: str) -> None:
    """Refuse a container that is not known."""
    if name not in _CONTAINERS:
        raise InvalidParameter("transform", f"be one of {', '.join(_CONTAINERS)}", repr(name), "Choose one of them.")


def contained(rows: FloatArray, names: Callable[[], Any], X: object, chosen: str | None) -> FloatArray | Any:
    """Return rows in a container with the names of their columns, and with the index of ``X`` if it is pandas'.

    Parameters
    ----------
    rows : array
        What to return.
    names : callable
        Returns the names of the columns; called for tables only.
    X : object
        What was transformed.
    chosen : str or None
        Container that ``set_output`` chose; None follows ``sklearn.set_config(transform_output=...)``.
    """
    # Nobody can have configured scikit-learn where it is not loaded, or not yet to the end.
    configuration: dict[str, Any] = getattr(sys.modules.get("sklearn"), "get_config", dict)()
    container = chosen or configuration.get("transform_output", DEFAULT)
    check_container(container)
    if container == DEFAULT:
        return rows
    module, columns = import_module(container), list(names())
    if container == "pandas":
        index = X.index if isinstance(X, module.DataFrame | module.Series) else None
        return module.DataFrame(rows, columns=columns, index=index)
    return module.DataFrame(rows, schema=columns, orient="row")
