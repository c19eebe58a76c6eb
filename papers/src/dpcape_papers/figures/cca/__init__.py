"""CCA of two views divided among sites: chapter 7, the capeCCA paper, and the poster (one site).

Your own method receives ``task.sites``, for each site a pair of arrays whose rows have norms of at most 1/sqrt(2), and
``task.options["pairs"].n_components``. It returns a pair of matrices with the directions of both views as columns.
"""

from __future__ import annotations

from dpcape_papers.experiments.experiment import Experiment, late, late_replica

_SUBSTITUTES = (
    "MOCHA-TIMIT (two speakers, articulators and acoustics, 1,000 frames of each speaker) for XRMB; our own smooth "
    "maps and potentials for those of simTB and EEGIFT."
)
_NOTE = (
    "Centres and principal directions come from separate records, and every view of a record has norm 1/sqrt(2), so "
    "that only the noisy moment depends on the records of the experiment. Grids, fixed values and the 25 (MNIST) and "
    "10 (speech) directions are those of the authors' public scripts, github.com/hafizimtiaz/capeCCA. The same holds "
    "for repeating MNIST ten times, without which CH would be a tenth of the plotted values. Only published "
    "calibrations count copies as people. K-means runs on the first view's projection of at most 10,000 records (1,500 "
    "in quick runs); CH is stated for all N p. CH measures how well k-means divides projected rows, whatever their "
    "directions: where noise has chosen these (speech, small epsilon), CH can be above that without noise, and shows "
    "no utility. The comparison with the paper leaves such verified points out. Quick runs omit panels b, d, g, i "
    "and k."
)
_POSTER_NOTE = (
    "The poster gives neither data nor fixed values. Here a mixture simulated after Chaudhuri et al. (2009), MNIST and "
    "speech are used, without copies, at epsilon 0.5 (by records) and 0.1 (by delta). K-means is used as for capeCCA."
)
_REPLICAS = {"size": "REPLICA_7_1", "delta": "REPLICA_7_2"}
_SIZE_TITLE = "Clusters and correlations found by CCA, by epsilon and number of records"
_DELTA_TITLE = "Clusters and correlations found by CCA, by delta"


def _of_capecca(name: str, label: str, scheme: str, by: str) -> Experiment:
    adversary = (
        " Verified CAPE holds against the aggregator colluding with three of ten sites (theorem 7.1)."
        if scheme == "chapter"
        else " Verified CAPE uses a trusted dealer of noise and holds against the aggregator colluding with eight of "
        "ten sites, because the paper assumes two honest sites."
    )
    return Experiment(
        name=name,
        paper=name.split("-")[0],
        label=label,
        title=_SIZE_TITLE if by == "size" else _DELTA_TITLE,
        work=late("cca.work", f"{scheme}_BY_{by}".upper()),
        # The dissertation's figures are those of the paper; both are compared, and counted once.
        replica=late_replica("cca", _REPLICAS[by]),
        substitutes=_SUBSTITUTES,
        note=_NOTE + adversary,
        extendable=True,
        stand_ins=("MOCHA-TIMIT", "stand-in", "fMRI+EEG"),
    )


def _of_poster(number: int, by: str) -> Experiment:
    return Experiment(
        name=f"poster-{number}",
        paper="poster",
        label=f"Performance variation, plot {number}",
        title=f"Clusters found by private CCA on one site, by {by}",
        work=late("cca.work", f"POSTER_BY_{by}".upper()),
        substitutes="MOCHA-TIMIT for XRMB, which the authors' paper of 2017 uses.",
        note=_POSTER_NOTE,
        extendable=True,
        # The poster does not name its data.
        stand_ins=("",),
    )


EXPERIMENTS = (
    _of_capecca("dissertation-7.1", "Figure 7.1", "chapter", "size"),
    _of_capecca("dissertation-7.2", "Figure 7.2", "chapter", "delta"),
    _of_capecca("capecca-2", "Figure 2", "paper", "size"),
    _of_capecca("capecca-3", "Figure 3", "paper", "delta"),
    _of_poster(1, "epsilon"),
    _of_poster(2, "records"),
    _of_poster(3, "delta"),
)
