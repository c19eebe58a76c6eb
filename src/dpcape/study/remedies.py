"""What to write instead: every mistake in a study is answered with it."""

from __future__ import annotations

# Fields of a study with a value that fits.
_EXAMPLES = {
    "name": '"thickness-pca"',
    "epsilon": "1.0",
    "delta": "1e-5",
    "n_components": "2",
    "n_colluding": "1",
    "deadline": '"10m"',
    "cancelling_ratio": "100.0",
    "records": "500",
    "weight": "0.25",
    "features": "64",
    "columns": '["age", "thickness"]',
    "ranges": "[0, 100]",
    "missing": "0",
    "target": '"diagnosis"',
    "rows_per_subject": "250",
}
_SENTENCES = {
    "bound": "Choose it from public knowledge; with ranges for all columns it may be left out.",
    "minimum_sites": "Choose a number in these limits, or leave it out.",
    "dealer": "Name a participant of its own.",
}


def remedy_for(field: str) -> str:
    """Return what to do about a field that is wrong, where nothing better is known.

    Parameters
    ----------
    field : str
        Name of the field.

    Examples
    --------
    >>> remedy_for("delta")
    'Write for example delta = 1e-5.'
    """
    if field in _SENTENCES:
        return _SENTENCES[field]
    if field in _EXAMPLES:
        return f"Write for example {field} = {_EXAMPLES[field]}."
    return f"Change {field} to a value that is allowed."
