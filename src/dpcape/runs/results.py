"""The files of a run that people open: figures, a paragraph on methods, and maps."""

from __future__ import annotations

import json
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from dpcape.core.files import write_text
from dpcape.guarantee.guarantee import NONE
from dpcape.report.methods import methods_markdown, methods_text, references

if TYPE_CHECKING:
    from dpcape.estimators.estimator import FederatedEstimator
    from dpcape.runs.folder import RunFolder

# Files of maps, the array that each is made from, whether its maps are rows, and the number of its view.
_MAPS = (
    ("maps.nii.gz", "components_", True, 0),
    ("maps.nii.gz", "mixing_", False, 0),
    ("x_maps.nii.gz", "x_loadings_", False, 0),
    ("y_maps.nii.gz", "y_loadings_", False, 1),
)


def write_results(run: RunFolder) -> None:
    """Write ``results.csv``, ``results.json``, ``methods.md`` and, for a study with a mask, images of the maps."""
    model = run.model()
    result = model.result()
    write_text(run.path / "results.csv", result.to_csv())
    write_text(run.path / "methods.md", methods_markdown(model))
    guarantee, study = model.guarantee_, run.study()
    content = {
        "format": "dpcape results 2",
        "study": study.name,
        "analysis": study.description.spelling,
        "rehearsal": run.is_rehearsal,
        "epsilon": None if guarantee.status == NONE else guarantee.epsilon,
        "delta": None if guarantee.status == NONE else guarantee.delta,
        "guarantee": guarantee.sentence(),
        "methods": methods_text(model),
        "cite": references(model),
        "releases": [
            {"statistic": release.statistic, "noise_sd": release.scale, "n_records": release.n_records}
            for release in model.releases_
        ],
        "verdicts": [str(verdict) for verdict in model.verdicts_],
        "assumptions": list(result.assumptions),
        "notes": [*(text for section in result.sections for text in section.notes), *result.notes],
        "results": result.to_list(),
    }
    write_text(run.path / "results.json", json.dumps(content, indent=1, allow_nan=False) + "\n")
    _write_maps(run, model)


def _write_maps(run: RunFolder, model: FederatedEstimator) -> None:
    """Write components, sources or loadings as images, where the study has a public mask and images can be written."""
    masks = run.study().data.masks
    if not any(masks) or find_spec("nibabel") is None:
        return
    from dpcape.neuro import write_maps

    for file, name, by_row, view in _MAPS:
        mask = masks[view] if view < len(masks) else None
        if mask is not None and hasattr(model, name):
            array = np.asarray(getattr(model, name))
            write_maps(array.T if by_row else array, run.path / file, mask=mask)
