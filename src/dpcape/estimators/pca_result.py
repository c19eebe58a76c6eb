"""What a principal component analysis found: eigenvalues with tests, and loadings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcape.charts import Scree
from dpcape.estimators.reported import weights_section
from dpcape.postprocessing.verdicts import numbered
from dpcape.results import NOISE_ALONE, TOGETHER, Estimates, Result, Section
from dpcape.statistics.bases import as_basis

if TYPE_CHECKING:
    from dpcape.estimators.pca import PCA

_TESTED = (
    "P-values say how often noise and sampling give a component as strong if what is left of the records has no "
    "direction; testing stops at the first above 0.05, and the rest are 1."
)
_LOADING = "entry of the component, a direction of length one in the prepared columns; its sign is a convention"
_CHANGE = "change of the column in original units when the score of the component grows by one"


def pca_result(model: PCA) -> Result:
    """Return eigenvalues, and loadings in prepared and in original units."""
    what = "covariance within sites" if model.adjust else "covariance" if model.center else "second moment around zero"
    values = Estimates(
        quantity="eigenvalue",
        estimand=f"eigenvalue of the {what} of the rows of these records, as they were prepared and clipped",
        names=numbered("component", len(model.components_)),
        value=model.explained_variance_,
        low=model.interval_[0],
        high=model.interval_[1],
        noise=model.variance_noise_scale_,
        p_value=model.p_values_,
        confidence=0.95,
        multiplicity=TOGETHER,
        covers=NOISE_ALONE,
    )
    tested, inside = [_TESTED], None
    if model.basis is not None:
        inside = as_basis(model.basis).inside
        tested.append(
            f"Intervals are wider by what the basis leaves out, {float(model.left_out_):.4g} on average; "
            f"{int(model.n_kept_)} columns of it are used."
        )
    strength = Section(
        title="Strength of the components", estimates=(values,), charts=(scree_of(model),), notes=tuple(tested)
    )
    noise = model.component_noise_scale_
    names, parts = model._grids(
        "loading",
        (_LOADING, _CHANGE),
        (model.components_, model.original_components_),
        "component",
        noise=(noise, model.units_.steps(noise)),
    )
    components = (parts, model.components_, names, "component")
    return Result((strength, weights_section("Components", *components, inside=inside, may_be_image=True)))


def scree_of(model: PCA) -> Scree:
    """Return the eigenvalues and the norm of the noise as a chart."""
    values, noise = model.explained_variance_, model.noise_norm_
    return Scree(
        values=values,
        level=noise,
        alt=f"Eigenvalues of {len(values)} components, largest {values[0]:.3g}; norm of the noise {noise:.3g}.",
        caption="Eigenvalues near the dashed line may be noise; the test of each component says whether they are.",
    )
