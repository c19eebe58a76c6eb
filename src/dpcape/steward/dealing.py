"""Review of a study by the participant that deals its noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcape.core.secure_sum.identity import fingerprint_of
from dpcape.study.study import Study

if TYPE_CHECKING:
    from dpcape.site.folder import SiteFolder

_TEXT = """{title}
{line}
Digest (approval is bound to it): {digest}

What leaves this participant
  For each release, one sealed box of random numbers per site. The numbers sum to zero over the sites. Only the site
  can open its box; the coordinator and the engine carry it.

What it is trusted with
  Nobody else may learn the numbers. The aggregator could take them off the sites' totals, and each site would be
  protected by its own noise only.

What it needs
  No records and no budget. It receives the length of each release and the scale of the noise, no totals. The machine
  must separate the engine from the keys (docs/threat_model.md); without that no noise is dealt.

Sites that receive noise, with the fingerprints pinned here
{sites}
"""


def dealing_text(folder: SiteFolder, study: Study) -> str:
    """Return what the noise dealer of a study would do, and keep the study; nothing is spent."""
    digest, pinned = folder.present(study), folder.pinned()
    title = f"Study {study.name!r}: {study.description.spelling}, with noise dealt by {folder.name}"
    known = {site: fingerprint_of(pinned[site]) for site in study.sites if site in pinned}
    sites = [f"  {site}: {known.get(site, 'not pinned here yet (dpcape site pin)')}" for site in study.sites]
    return _TEXT.format(title=title, line="=" * len(title), digest=digest, sites="\n".join(sites))
