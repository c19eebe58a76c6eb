"""Zero-sum noise from a trusted dealer (capeCCA paper): no agreement among sites is needed.

The dealer seals each site's share in a box; the aggregator forwards boxes it cannot open. Before any site releases
anything, the sites' answers show whether the shares sum to zero (``dealt_noise.py``). Privacy requires that the dealer
does not collude with the aggregator: if it did, only a site's own noise would protect the site.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import msgspec
import numpy as np

from dpcape.core.arrays import IntArray
from dpcape.core.errors import InvalidMessage, InvalidParameter, ProtocolError
from dpcape.core.files import NAME_RULE, is_name
from dpcape.core.messages import (
    Array,
    CheckDealt,
    Deal,
    Dealt,
    DealtChecked,
    FromSite,
    Request,
    Submit,
    ToSite,
    Vector,
)
from dpcape.core.privacy.calibration import ReleaseNoise
from dpcape.core.privacy.terms import ProtocolSettings, Terms
from dpcape.core.protocols.dealt_noise import (
    DEALER,
    MODULUS,
    PAD_BYTES,
    answer_of,
    box_context,
    key_statement,
    opened_parts,
    parts_of,
    root_of,
    sums_to_zero,
)
from dpcape.core.protocols.independent import noisy_total
from dpcape.core.protocols.parameters import (
    CANCELLING_RATIO,
    DEALER_NAME,
    MINIMUM_SITES,
    N_COLLUDING,
    ProtocolParameter,
)
from dpcape.core.protocols.protocol import (
    CoordinatorRole,
    Messenger,
    Outcome,
    SiteContext,
    SiteRole,
    check_colluding,
    check_least_sites,
    request_digest,
)
from dpcape.core.protocols.zero_sum import ZeroSum, check_ratio
from dpcape.core.secure_sum.box import BoxKey


@dataclass(frozen=True, kw_only=True)
class Dealer(ZeroSum):
    """Zero-sum noise dealt by a trusted third party.

    Parameters
    ----------
    n_colluding : int
        Number of sites that may share everything they know with the aggregator; no default.
    cancelling_ratio : float
        As in :class:`Cape`.
    dealer : str
        Name of the participant that deals noise; sites have pinned its public key under this name. Empty for a dealer
        in the process that runs the study.

    Privacy
    -------
    Holds against the aggregator colluding with any ``n_colluding`` sites, if the dealer is honest and keeps the shares
    secret. All sites must finish: nobody could correct for one that drops out. View: releases of the honest sites, and
    the shares of the colluders, hence the sum of the others' (all shares sum to zero). The sum of draws is never
    revealed, but counting it as known changes nothing: the shares are independent of it. The answers by which shares
    are found to sum to zero follow from the colluders' shares and uniform numbers (``dealt_noise.py``).
    """

    n_colluding: int
    cancelling_ratio: float = 100.0
    dealer: str = ""

    name: ClassVar[str] = "dealer"
    title: ClassVar[str] = "dealer"
    summary: ClassVar[str] = "a third party deals it"
    seen: ClassVar[str] = (
        "The aggregator sees the noisy total of every site. Noise that a third party dealt cancels in the sum over "
        "sites; each site's own stays in the result. The third party sees neither records nor totals."
    )
    parameters: ClassVar[tuple[ProtocolParameter, ...]] = (N_COLLUDING, CANCELLING_RATIO, DEALER_NAME)
    refused: ClassVar[Mapping[str, str]] = {MINIMUM_SITES.name: "all sites must finish"}
    rank: ClassVar[int] = 4
    least_sites: ClassVar[int] = 2
    too_few: ClassVar[str] = "Use Independent()."
    vectors: ClassVar[int] = 2
    needs_dealer: ClassVar[bool] = True

    def settings(self, n_sites: int) -> ProtocolSettings:
        check_least_sites(self, n_sites)
        check_colluding(self.n_colluding, n_sites)
        return ProtocolSettings(
            name=self.name,
            n_colluding=self.n_colluding,
            minimum_sites=n_sites,
            cancelling_ratio=check_ratio(self.cancelling_ratio),
            dealer=_checked_name(self.dealer) or msgspec.UNSET,
        )

    @classmethod
    def from_settings(cls, settings: ProtocolSettings) -> Dealer:
        name = "" if settings.dealer is msgspec.UNSET else settings.dealer
        return cls(n_colluding=settings.n_colluding, cancelling_ratio=settings.cancelling_ratio, dealer=name)

    def n_honest(self, n_sites: int) -> int:
        return n_sites - self.n_colluding

    def assumptions(self) -> tuple[str, ...]:
        who = f"the noise dealer {self.dealer}" if self.dealer else "the noise dealer"
        return (
            "sites and aggregator follow the protocol (honest but curious)",
            f"{who} is honest and tells nobody what it dealt (if it told the aggregator, only a site's own noise would "
            "protect it)",
            "X25519, HKDF-SHA-256 and AES-256-GCM are secure",
        )

    def coordinator(self, messenger: Messenger, terms: Terms) -> CoordinatorRole:
        return _DealerCoordinator(messenger, terms)

    def site_role(self, site: SiteContext) -> SiteRole:
        return _DealerSite(site, self.dealer or DEALER)


def _checked_name(name: object) -> str:
    if not isinstance(name, str) or (name and not is_name(name)):
        raise InvalidParameter("dealer", f"be {NAME_RULE}", repr(str(name)[:80]), "Leave it out within one process.")
    return name


class _DealerCoordinator(CoordinatorRole):
    def run(self, request: Request, plan: ReleaseNoise, size: int) -> Outcome:
        boxes, root = self._deal(request, plan, size)
        self._check(request, boxes)
        replies, missing = self._ask_all(self._present, lambda site: Submit(request=request, box=root), Vector)
        self._require_enough(tuple(set(self._present) - set(missing)), "answered")
        return Outcome(total=self._add_plain(replies, size), survivors=tuple(sorted(replies)))

    def _check(self, request: Request, boxes: Mapping[str, bytes]) -> None:
        """Distribute the boxes; raise unless every site has opened its own and all shares sum to zero."""
        replies, missing = self._ask_all(
            self._present, lambda site: CheckDealt(request=request, box=boxes[site]), DealtChecked
        )
        self._require_enough(tuple(set(self._present) - set(missing)), "took their noise")
        if not sums_to_zero([reply.answer for reply in replies.values()]):
            raise ProtocolError(
                "The release failed",
                "the dealt noise does not sum to zero",
                "Nothing was released or charged for it. Have the noise dealer and the sites checked, then start a "
                "new run.",
            )

    def _deal(self, request: Request, plan: ReleaseNoise, size: int) -> tuple[dict[str, bytes], bytes]:
        dealer = self._messenger.dealer
        if dealer is None:
            must = "have a transport with a noise dealer"
            raise InvalidMessage("Dealer", must, "a transport without one", "Use in_process(), or choose Cape.")
        message = Deal(
            terms=self._terms.digest(),
            request=request_digest(request),
            release=request.release,
            size=size,
            shared_steps={site: plan.shared_steps(site) for site in self._present},
            receivers=dict(self._messenger.keys),
        )
        replies, _ = self._ask_all((dealer,), lambda _: message, Dealt)
        if dealer not in replies:
            raise ProtocolError(
                "The release failed",
                f"the noise dealer {dealer} did not answer",
                "Nothing was released or charged for it. Start the noise dealer, then continue with: dpcape run "
                "--resume.",
            )
        boxes: dict[str, bytes] = replies[dealer].boxes
        if set(boxes) != set(self._present):
            remedy = "Nothing was released. Install the same dpcape version everywhere."
            raise ProtocolError("The release failed", "the noise dealer did not send one box per site", remedy)
        opened = {site: parts_of(box) for site, box in boxes.items()}
        root = root_of({site: sealed for site, (_, _, sealed) in opened.items()})
        if any(named_root != root for _, named_root, _ in opened.values()):
            remedy = "Nothing was released. Have the noise dealer checked, then start a new run."
            raise ProtocolError("The release failed", "the noise dealer's boxes are not of one deal", remedy)
        return boxes, root


class _DealerSite(SiteRole):
    def __init__(self, site: SiteContext, dealer: str) -> None:
        super().__init__(site)
        if dealer not in site.pinned:
            remedy = f"Compare its fingerprint, then run at this site: dpcape site pin {dealer} PUBLIC_KEY."
            raise InvalidMessage(f"The noise dealer {dealer}", "be pinned at every site", "no key for it", remedy)
        self._dealer_key = site.pinned[dealer]
        self._key: BoxKey | None = BoxKey()
        # Releases whose noise was opened here; request, root and share of the last one until it is used.
        self._opened: set[int] = set()
        self._share: tuple[bytes, bytes, IntArray] | None = None

    def forget(self) -> None:
        self._key = None
        self._drop_share()

    def _drop_share(self) -> None:
        if self._share is not None:
            self._share[2][:] = 0
        self._share = None

    def _kept_key(self) -> BoxKey:
        if self._key is None:
            raise ProtocolError("The request was refused", "its allowance is over", "Open a new one.")
        return self._key

    def key(self) -> bytes:
        """Return the box key signed by the site, so that nobody in between can put its own in place."""
        public = self._kept_key().public
        return self._site.identity.sign(key_statement(self._site.terms.digest(), self._site.name, public)) + public

    def answer(self, message: ToSite) -> FromSite:
        if isinstance(message, CheckDealt):
            return self._open(message)
        if isinstance(message, Submit):
            return self._release(message.request, message.box)
        must, remedy = "be CheckDealt or Submit", "Install the same dpcape version everywhere."
        raise InvalidMessage("A message to a site under Dealer", must, type(message).__name__, remedy)

    def _open(self, message: CheckDealt) -> FromSite:
        """Open the box of a release and answer in the check; once, since two answers would leak the share."""
        request, site = message.request, self._site
        if request.release in self._opened:
            why = "noise was already opened for this release"
            raise ProtocolError("The dealt noise was refused", why, "Start a new run.")
        # Begin only after this check, so that an old request cannot replace the current one.
        size, plan, sites = site.size(request), site.begin(request), site.terms.sites
        bound = (site.terms.digest(), request.release, request_digest(request))
        context = box_context(*bound, site.name, sites)
        root, sealed = opened_parts(message.box, context, self._dealer_key)
        pad, share = _checked_share(self._kept_key().open(sealed, context), plan, sites, size)
        self._drop_share()
        self._opened.add(request.release)
        self._share = (request_digest(request), root, share)
        return DealtChecked(answer=answer_of(share, pad, box_context(*bound, "", sites), root))

    def _release(self, request: Request, root: bytes) -> FromSite:
        # The digest covers the release number and everything else that the noise was dealt for.
        if self._share is None or self._share[:2] != (request_digest(request), root):
            raise ProtocolError("The release was refused", "its dealt noise was not opened here", "Start a new run.")
        self._site.begin(request)
        total = noisy_total(self._site, request)
        total += self._share[2]
        self._drop_share()
        return Vector(array=Array.of(total))


def _checked_share(opened: bytes, plan: ReleaseNoise, sites: Sequence[str], size: int) -> tuple[int, IntArray]:
    """Return pad and share, or raise unless the dealer used the scales this site computed for all of ``sites``."""
    start = 8 * len(sites)
    if len(opened) != start + PAD_BYTES + 8 * size:
        must = f"have {start + PAD_BYTES + 8 * size} bytes"
        raise InvalidMessage("Dealt noise", must, len(opened), "Install the same dpcape version everywhere.")
    scales = np.frombuffer(opened, dtype="<f8", count=len(sites))
    if not np.allclose(scales, [plan.shared_steps(site) for site in sites], rtol=1e-9, atol=0.0):
        why = "its scale differs from this site's calculation"
        raise ProtocolError("The dealt noise was refused", why, "Install the same dpcape version everywhere.")
    pad = int.from_bytes(opened[start : start + PAD_BYTES], "big") % MODULUS
    share: IntArray = np.frombuffer(opened, dtype="<i8", offset=start + PAD_BYTES).astype(np.int64)
    return pad, share
