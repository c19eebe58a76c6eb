"""Harmonisation: location and scale of every site or scanner, as public numbers."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dpcape.analyses.description import Analysis
from dpcape.analyses.harmonise import FIRST_SHARE, HARMONISE, first_scale, harmonised_columns
from dpcape.charts import Offsets
from dpcape.core.arrays import AnyArray, FloatArray, IntArray
from dpcape.core.errors import InvalidParameter, UtilityWarning
from dpcape.estimators.fitted import require_fitted
from dpcape.estimators.sites.site_effects import SiteEffects, length_of_rows, pooled_columns, site_effects
from dpcape.estimators.sites.site_release import BY_SITE, OfSites
from dpcape.federation.allowance import Allowance
from dpcape.federation.federation import Federation
from dpcape.postprocessing.verdicts import of_left_over
from dpcape.results import SHOWN, Estimates, Result, Section
from dpcape.statistics.site_moments import SiteMoments
from dpcape.statistics.table_designs import NO_SITE
from dpcape.tables import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
_MOST_SITES = 40
_HEADER = ["site", "records", "part kept", "location (root mean square)", "scale (mean)"]
_SIZE = "number of complete records of the site, as released"
_LOCATION = (
    "what values of the column at the site are too large by, against the mean of all sites; moved towards 0 as far as "
    "noise and sampling explain it"
)
_SCALE = "standard deviation of the column at the site over that of all sites, moved towards 1 likewise"


class Harmonise(OfSites):
    """Location and scale of every site or scanner (as ComBat estimates them), under differential privacy.

    What it returns is public: :meth:`transform` applies it to the raw columns of a site, record by record, and any
    later analysis keeps its own guarantee. Standardising records by their own site's mean and standard deviation is not
    private: one record moves all others.

    Parameters
    ----------
    site : str
        Column with the site or scanner, a category with public levels.
    epsilon : float or mapping
        Privacy parameter epsilon of the whole fit: one number for all sites, or one per site.
    delta : float or mapping
        Privacy parameter delta, for all sites or per site; far below one over the number of records.
    columns : sequence of str or None
        Columns of numbers to harmonise; None for all. Noise grows with the square root of their number.
    scale : bool
        Whether standard deviations are harmonised too.

    Attributes
    ----------
    location_ : array of shape (S, V)
        What the values of a site are too large by, in units of the columns; shrunk as far as noise and sampling explain
        it.
    scale_ : array of shape (S, V)
        Standard deviation at a site over that of all sites.
    centre_ : array of shape (V,)
        Means of all sites.
    sites_, columns_ : array of str
        Names of the sites and of the columns.
    sizes_ : array of shape (S,)
        Numbers of complete records, as released.
    kept_ : array of shape (S,)
        Part of a site's mean that noise and sampling do not explain.
    between_, left_ : float
        Variance between sites before harmonisation, and an upper limit (95%) of it afterwards, over that within sites;
        means over the columns that were harmonised. Columns are taken to vary alike within their ranges, as far as
        noise does not show otherwise.

    Privacy
    -------
    Two releases of ``site_moments``, of diameter 2: for all sites together (10% of mu^2), then by site, of rows that
    are standardised by the first and shortened. Noisy totals of each site are visible, under every protocol.

    Notes
    -----
    Location and scale are empirical-Bayes estimates that know the noise. Covariates are not adjusted for: where sites
    differ because their people do, in age for instance, that difference is removed too. Do not harmonise before a
    comparison that is confounded with site; :class:`MassUnivariate` adjusts for site and covariates together.

    Edge cases
    ----------
    =====================================  ====================================================================
    record with a missing value            left out of the fit; :meth:`transform` leaves missing values missing
    site that noise hides                  location 0 and scale 1: its records stay as they are
    record of an unknown site              stays as it is
    column with a range far too wide       its values stay as they are where noise shows it, with a warning; where noise
                                           hides it, ``left_`` may be too small for this column
    sites with weights                     refused: every record counts once
    =====================================  ====================================================================

    References
    ----------
    W. Johnson, C. Li and A. Rabinovic, *Adjusting batch effects in microarray expression data using empirical Bayes
    methods*, 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcape import Federation, Harmonise, Independent, in_process, table
    >>> source = np.random.default_rng(0)
    >>> scanner = np.repeat(np.array(["old", "new"], dtype=object), 5000)
    >>> people = {"scanner": scanner, "volume": source.normal(3.5, 0.4, 10000) + 0.2 * (scanner == "new")}
    >>> records = table(people, columns={"scanner": ["old", "new"], "volume": (2, 5)})
    >>> federation = Federation(in_process({"lyon": records}), protocol=Independent())
    >>> model = Harmonise("scanner", epsilon=3.0, delta=1e-6).fit(federation)
    >>> volume = model.transform(people)["volume"]
    >>> bool(abs(volume[scanner == "new"].mean() - volume[scanner == "old"].mean()) < 0.03)
    True
    """

    analysis: ClassVar[Analysis | None] = HARMONISE
    location_: FloatArray
    scale_: FloatArray
    centre_: FloatArray
    sites_: AnyArray
    columns_: AnyArray
    sizes_: FloatArray
    kept_: FloatArray
    between_: float
    left_: float

    def __init__(
        self,
        site: str,
        *,
        epsilon: float | Mapping[str, float],
        delta: float | Mapping[str, float],
        columns: str | Sequence[str] | None = None,
        scale: bool = True,
    ) -> None:
        self.site = site
        self.epsilon = epsilon
        self.delta = delta
        self.columns = columns
        self.scale = scale

    def _fit(self, federation: Federation, private: Allowance) -> None:
        facts = federation.facts
        chosen, site = harmonised_columns(facts, self.site, self.columns)
        positions = np.array(chosen, dtype=np.int64)
        all_sites = SiteMoments(facts, positions, NO_SITE, np.zeros(len(chosen)), first_scale(len(chosen)))
        sums, noise = self._sums(all_sites, private)
        centre, sd = pooled_columns(sums, noise=noise)
        levels = facts.columns[site].levels
        following = noise * math.sqrt(FIRST_SHARE / (1 - FIRST_SHARE))
        length = length_of_rows(len(chosen), max(float(sums.counts[0]), 1.0) / len(levels), following)
        sums, noise = self._sums(SiteMoments(facts, positions, site, centre, sd * length), private)
        effects = site_effects(sums, length=length, noise=noise, scale=self.scale)
        columns = [facts.columns[at] for at in chosen]
        half_range = np.array([(column.high - column.low) / 2 for column in columns])
        middle = np.array([(column.high + column.low) / 2 for column in columns])
        self.centre_ = middle + half_range * centre
        self.location_ = effects.location * sd * half_range
        self.sites_ = np.array(levels, dtype=np.str_)
        self.columns_ = np.array([column.name for column in columns], dtype=np.str_)
        self._keep(effects)

    def _keep(self, effects: SiteEffects) -> None:
        self.scale_, self.kept_, self.sizes_ = effects.ratio, effects.kept, effects.sizes
        self.between_, self.left_ = effects.before, effects.left
        hidden = [str(name) for name in self.columns_[effects.is_hidden]]
        self.verdicts_ = of_left_over(effects.before, effects.left, hidden)
        if hidden:
            warnings.warn(
                f"Not harmonised: {', '.join(hidden)}. Values vary so little within the range that noise hides how "
                "sites differ; between_ and left_ are those of the other columns. Declare a narrower range.",
                UtilityWarning,
                stacklevel=4,
            )

    def transform(self, data: Mapping[str, ArrayLike]) -> dict[str, AnyArray]:
        """Return the columns of a table with the chosen ones harmonised; each record by public numbers alone.

        Parameters
        ----------
        data : mapping from str to array
            Raw columns by name, the column of sites among them; a pandas table is one.
        """
        require_fitted(self)
        columns = {str(name): np.asarray(data[name]) for name in data}
        wanted = [self.site, *(str(name) for name in self.columns_)]
        missing = [name for name in wanted if name not in columns]
        if missing:
            raise InvalidParameter(
                "data", f"have the columns of the fit; {', '.join(missing)} is missing", remedy="Add what is missing."
            )
        codes = _positions_of(columns[self.site], self.sites_)
        # One row per site, and a last one, selected by index -1, that leaves records unchanged.
        slopes = np.vstack([1 / self.scale_, np.ones(len(self.columns_))])
        offsets = np.vstack(
            [self.centre_ - (self.centre_ + self.location_) / self.scale_, np.zeros(len(self.columns_))]
        )
        for at, name in enumerate(self.columns_):
            values = np.asarray(columns[str(name)], dtype=np.float64) * slopes[:, at].take(codes)
            values += offsets[:, at].take(codes)
            columns[str(name)] = values
        return columns

    def _result(self) -> Result:
        before, after = (100 * share / (1 + share) for share in (self.between_, self.left_))
        rows = [
            [str(site), f"{size:.0f}", f"{100 * part:.0f}%", f"{np.sqrt((own**2).mean()):.3g}", f"{ratio.mean():.2f}"]
            for site, size, part, own, ratio in zip(
                self.sites_, self.sizes_, self.kept_, self.location_, self.scale_, strict=True
            )
        ]
        ratio = Estimates(
            quantity="variance between sites over that within",
            estimand="variance between the means of these sites over that within sites, mean over the columns; after "
            "harmonisation an upper limit at 95%",
            parts=["before", "after, upper limit"],
            value=[self.between_, self.left_],
        )
        section = Section(
            title="Sites",
            estimates=(*(part for at in range(len(self.sites_)) for part in self._of_site(at)), ratio),
            tables=(Table(_HEADER, rows[:SHOWN]),),
            charts=(self._offsets(),),
            notes=(
                f"Sites explain {before:.2g}% of the variance before harmonisation, and at most {after:.2g}% after it. "
                f"{BY_SITE} Records are harmonised at their site by these public numbers: later analyses keep their "
                "own guarantees.",
            ),
        )
        return Result((section,))

    def _of_site(self, at: int) -> Iterator[Estimates]:
        """Yield the figures of one site: its size, then location and scale of each column."""
        site, names = str(self.sites_[at]), [str(name) for name in self.columns_ for _ in range(2)]
        yield Estimates(quantity="complete records", estimand=_SIZE, groups=site, value=self.sizes_[at])
        yield Estimates(
            quantity=["location", "scale"] * len(self.columns_),
            estimand=[_LOCATION, _SCALE] * len(self.columns_),
            names=names,
            groups=site,
            value=np.column_stack([self.location_[at], self.scale_[at]]),
            unit=[self.unit_of(name) if number % 2 == 0 else "" for number, name in enumerate(names)],
        )

    def _offsets(self) -> Offsets:
        # Columns have different units: each is shown relative to the spread of its sites.
        spread = np.sqrt((self.location_**2).mean(axis=0))
        relative = self.location_ / np.where(spread > 0, spread, 1.0) * np.sqrt(self.between_)
        listed = "; ".join(
            f"{site}: {np.sqrt((own**2).mean()):.3g}" for site, own in zip(self.sites_, self.location_, strict=True)
        )
        return Offsets(
            names=[str(site) for site in self.sites_][:_MOST_SITES],
            values=relative[:_MOST_SITES],
            band=float(np.sqrt(self.left_)),
            alt=f"Offsets of sites, root mean square over columns: {listed}.",
            caption="Offsets of sites before harmonisation, and the band within which they usually are after it.",
        )

    def plot_sites(self, ax: Axes | None = None) -> Axes:
        """Draw how far sites are apart before harmonisation and, at most, after it."""
        from dpcape.report.drawing import draw

        require_fitted(self)
        return draw(self._offsets(), ax)


def _positions_of(entries: AnyArray, names: AnyArray) -> IntArray:
    """Return the position of every entry among the names, -1 for one that is not among them; one number if all agree.

    Entries are compared as text, each different one once.
    """
    position_of_name = {str(name): at for at, name in enumerate(names)}
    if entries.dtype.kind in "biuf" and len(entries) and (entries == entries[0]).all():
        entries = entries[:1]
    labels = entries.tolist()
    positions = {entry: position_of_name.get(str(entry), -1) for entry in set(labels)}
    if len(positions) == 1:
        return np.array([*positions.values()], dtype=np.intp)
    return np.fromiter(map(positions.__getitem__, labels), dtype=np.intp, count=len(labels))
