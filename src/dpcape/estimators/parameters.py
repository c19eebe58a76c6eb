"""Parameters of an estimator as scikit-learn's tools expect them; scikit-learn is loaded when one of them asks."""

from __future__ import annotations

import html
import inspect
from typing import Any, Self

from dpcape.core.errors import InvalidParameter

# Width of a representation, and length of the longest value in it.
_LINE, _LONGEST = 80, 700


class Parameters:
    """What ``clone``, pipelines and searches of scikit-learn ask of an estimator: its constructor's parameters.

    Every parameter is stored by the constructor under its own name, as it was given.
    """

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        """Return the defaults of the constructor's parameters by name; ``inspect.Parameter.empty`` where none is."""
        parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
        named = (entry for entry in parameters if entry.kind not in (entry.VAR_POSITIONAL, entry.VAR_KEYWORD))
        return {entry.name: entry.default for entry in sorted(named, key=lambda entry: entry.name)}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name.

        Parameters
        ----------
        deep : bool
            Whether to add the parameters of parameters that have some, as ``NAME__THEIRS``.
        """
        found: dict[str, Any] = {}
        for name in self._defaults():
            value = getattr(self, name)
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                found |= {f"{name}__{key}": entry for key, entry in value.get_params().items()}
            found[name] = value
        return found

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, and return the estimator.

        Parameters
        ----------
        **params
            New values; ``NAME__THEIRS`` sets a parameter of the parameter ``NAME``.
        """
        names = list(self._defaults())
        nested: dict[str, dict[str, Any]] = {}
        for key, value in params.items():
            name, divided, theirs = key.partition("__")
            if name not in names:
                must = f"be one of {', '.join(names)}"
                raise InvalidParameter(f"A parameter of {type(self).__name__}", must, repr(name), "Choose one of them.")
            if divided:
                nested.setdefault(name, {})[theirs] = value
            else:
                setattr(self, name, value)
        # After the others: a parameter that is replaced in the same call is replaced first.
        for name, own in nested.items():
            getattr(self, name).set_params(**own)
        return self

    def __sklearn_clone__(self) -> Self:
        # Called by scikit-learn's clone, which would otherwise look for the choice of set_output under its own names.
        from sklearn.base import clone

        given = {name: clone(value, safe=False) for name, value in self.get_params(deep=False).items()}
        made = type(self)(**given)
        changed = [name for name, value in given.items() if getattr(made, name) is not value]
        if changed:
            must = f"store the parameter {changed[0]} as it is given"
            raise InvalidParameter(f"The constructor of {type(self).__name__}", must, "another value")
        return made

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False))

    def _repr_html_(self) -> str:
        return f"<code>{html.escape(repr(self))}</code>"

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def __repr__(self) -> str:
        """Return the call that makes the estimator, without parameters that have their defaults."""
        given = [
            f"{name}={_shortened(repr(getattr(self, name)))}"
            for name, default in self._defaults().items()
            if repr(getattr(self, name)) != repr(default)
        ]
        lines = [f"{type(self).__name__}("]
        indent = " " * len(lines[0])
        for number, text in enumerate(given, start=1):
            piece = text + (", " if number < len(given) else ")")
            if number > 1 and len(lines[-1]) + len(piece.rstrip()) > _LINE:
                lines.append(indent)
            lines[-1] += piece
        return "\n".join(line.rstrip() for line in lines) + ("" if given else ")")


def _shortened(text: str) -> str:
    """Return a text, or where it is very long its two ends."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]}...{text[-_LONGEST // 2 :]}"
