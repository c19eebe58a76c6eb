"""Schemas as scikit-learn transformers; nothing is learnt, and scikit-learn is not imported."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from dpcape.core.arrays import FloatArray
from dpcape.core.errors import InvalidParameter
from dpcape.schema.containers import check_container, contained

if TYPE_CHECKING:
    from dpcape.schema.column import Column

# Prefix of the names of columns mapped to [-1, 1], so that their values are not taken for original units.
SCALED = "scaled__"


class SchemaTransformer:
    """Methods that make a schema a transformer of scikit-learn."""

    if TYPE_CHECKING:
        columns: tuple[Column, ...]

        def apply(self, block: object, *, out: FloatArray | None = None) -> FloatArray:
            """Turn raw columns into features."""

    # Not a field: schemas with different output containers are equal.
    _output: str | None = None

    def fit(self, X: object = None, y: object = None) -> Self:
        """Return the schema: there is nothing to learn, and nothing is read.

        Parameters
        ----------
        X, y : object
            Ignored; present because scikit-learn's transformers take them.
        """
        return self

    def transform(self, X: object) -> FloatArray | Any:
        """Return raw rows as features, in the container that :meth:`set_output` named.

        Parameters
        ----------
        X : object
            Raw rows, as for :meth:`apply`.
        """
        return contained(self.apply(X), self.get_feature_names_out, X, self._output)

    def fit_transform(self, X: object, y: object = None) -> FloatArray | Any:
        """Return the same as :meth:`transform`.

        Parameters
        ----------
        X : object
            Raw rows, as for :meth:`apply`.
        y : object
            Ignored; present because scikit-learn's transformers take it.
        """
        return self.transform(X)

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """Return the names of prepared columns: a number that was mapped to [-1, 1] is called "scaled__NAME".

        Parameters
        ----------
        input_features : object
            Ignored; present because scikit-learn's transformers take it.
        """
        names = [
            f"{SCALED}{name}" if column.range is not None else name
            for column in self.columns
            for name in column.feature_names
        ]
        return np.array(names, dtype=object)

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose what :meth:`transform` returns, and return the schema.

        Parameters
        ----------
        transform : str or None
            "default" for an array, "pandas" or "polars" for a table; None changes nothing.
        """
        if transform is not None:
            check_container(transform)
            object.__setattr__(self, "_output", transform)
        return self

    def get_params(self, deep: bool = True) -> dict[str, object]:
        """Return the parameters of the constructor.

        Parameters
        ----------
        deep : bool
            Ignored; present because scikit-learn's transformers take it.
        """
        return {name: getattr(self, name) for name in ("columns", "named", "events")}

    def set_params(self, **params: object) -> Self:
        """Return the schema if there is nothing to change; a schema is fixed once it is made.

        Parameters
        ----------
        **params
            Must be empty.
        """
        if params:
            remedy = "Make another with Schema.of(...)."
            raise InvalidParameter("A schema", "stay as it was agreed", f"a new {sorted(params)[0]}", remedy)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        # Only scikit-learn calls this, so it is already imported; a site that prepares records does not need it.
        tags = sys.modules["sklearn.utils"]
        return tags.Tags(
            estimator_type=None,
            target_tags=tags.TargetTags(required=False),
            transformer_tags=tags.TransformerTags(),
            input_tags=tags.InputTags(string=True, allow_nan=True),
            requires_fit=False,
            no_validation=True,
        )
