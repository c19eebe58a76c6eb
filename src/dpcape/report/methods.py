"""A paragraph on methods for a paper, with references, from a fitted model alone."""

from __future__ import annotations

from typing import Protocol

from dpcape.analyses.description import Analysis
from dpcape.core._version import __version__
from dpcape.core.protocols.registry import protocol_of
from dpcape.guarantee.guarantee import NONE, Guarantee
from dpcape.guarantee.release_record import ReleaseRecord
from dpcape.report.citations import papers, software
from dpcape.results import Result
from dpcape.schema.column import Column
from dpcape.schema.schema import Schema


class Fitted(Protocol):
    """Fitted estimator, as far as a text on methods needs it."""

    guarantee_: Guarantee
    releases_: list[ReleaseRecord]
    schemas_in_: tuple[Schema | None, ...]
    bounds_in_: tuple[float, ...]
    widths_in_: tuple[int, ...]
    n_features_in_: int

    @property
    def analysis(self) -> Analysis | None: ...

    def get_params(self, deep: bool = True) -> dict[str, object]: ...

    def result(self) -> Result: ...


# Number of columns to name; if there are more, only the first and last are named.
_NAMED = 12


def methods_text(model: Fitted) -> str:
    """Return a paragraph on how a result was computed, with the guarantee in full."""
    guarantee, result = model.guarantee_, model.result()
    parts = [_what(model, guarantee), _columns(model), _noise(model, guarantee), *result.meanings(), *result.notes]
    return " ".join(part for part in parts if part)


def references(model: Fitted) -> list[str]:
    """Return what a paper should cite: the software, the method, and the accounting of privacy."""
    return [software(), *papers(type(model), model.guarantee_.protocol)]


def methods_markdown(model: Fitted) -> str:
    """Return the paragraph and the references as Markdown."""
    listed = "\n".join(f"- {entry}" for entry in references(model))
    return f"# Methods\n\n{methods_text(model)}\n\n## References\n\n{listed}\n"


def _what(model: Fitted, guarantee: Guarantee) -> str:
    described = model.analysis
    kind = type(model).__name__
    # What a variant adds after the comma is among the parameters.
    title = described.variants[0].title.partition(",")[0] if described is not None and described.variants else kind
    sites = list(guarantee.sites)
    n_records = sum(guarantee.sites[site].n_records for site in sites)
    source = f"the site {sites[0]}" if len(sites) == 1 else f"{len(sites)} sites ({', '.join(sites)})"
    stay = "" if len(sites) == 1 else "; no records left their site"
    return (
        f"The analysis ({title[0].lower()}{title[1:]}; class {kind} of dpcape {__version__}{_settings(model)}) used "
        f"{n_records:,} {guarantee.unit}s of {source}{stay}."
    )


def _settings(model: Fitted) -> str:
    """Return the parameters that differ from their defaults, in words."""
    described = model.analysis
    if described is None:
        return ""
    defaults = {entry.name: entry.default for entry in described.parameters}
    settings = {name: value for name, value in model.get_params(deep=False).items() if name in defaults}
    plain = {name: value for name, value in settings.items() if isinstance(value, str | int | float | list | tuple)}
    # What was read from a file has lists where the default is a tuple.
    texts = [
        f"{name} = {value}"
        for name, value in plain.items()
        if _as_list(value) != _as_list(defaults[name]) and len(str(value)) < 200
    ]
    return f", with {', '.join(texts)}" if texts else ""


def _as_list(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def _columns(model: Fitted) -> str:
    """Say which columns there were and how they were prepared."""
    schemas = model.schemas_in_
    columns = [column for schema in schemas if schema is not None for column in schema.columns]
    if not columns or any(schema is None for schema in schemas):
        bounds = " and ".join(f"{bound:g}" for bound in model.bounds_in_)
        return f"Rows of {model.n_features_in_} columns were scaled down to a Euclidean norm of at most {bounds}."
    shown = columns if len(columns) <= _NAMED else [*columns[: _NAMED - 1], columns[-1]]
    listed = [_column(column) for column in shown]
    if len(columns) > _NAMED:
        listed.insert(-1, f"{len(columns) - _NAMED} more")
    text = f"Columns were {', '.join(listed)}; values outside their public ranges were moved to the nearer end."
    filled = [f"{column.name} by {column.missing}" for column in columns if column.missing is not None]
    if filled:
        text += f" Missing values were replaced by public constants ({', '.join(filled[:_NAMED])})."
    if len(model.widths_in_) == len(schemas) and all(
        schema is not None and len(schema.feature_names) == width
        for schema, width in zip(schemas, model.widths_in_, strict=True)
    ):
        bounds = " and ".join(f"{bound:.4g}" for bound in model.bounds_in_)
        text += f" Numbers were mapped to [-1, 1], and rows longer than {bounds} were scaled down to that length."
    return text


def _column(column: Column) -> str:
    if column.levels is not None:
        return f"{column.name} ({', '.join(str(level) for level in column.levels)})"
    if column.range is None or column.dates:
        return column.name
    low, high = column.range
    return f"{column.name} ({low:g} to {high:g}{f' {column.unit}' if column.unit else ''})"


def _noise(model: Fitted, guarantee: Guarantee) -> str:
    if guarantee.status == NONE:
        return "No noise was added: exact totals of every site were released, without a guarantee of privacy."
    described = protocol_of(guarantee.protocol)
    protocol = guarantee.protocol if described is None else described.title
    n_releases = len(model.releases_)
    counted = "one release" if n_releases == 1 else f"{n_releases} releases"
    return (
        f"Privacy is protected by Gaussian noise on exact integers in {counted}, under the protocol {protocol}. "
        f"Guarantee: {guarantee.sentence()}"
    )
