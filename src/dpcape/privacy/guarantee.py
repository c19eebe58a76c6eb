"""What may be claimed, against whom: a value that travels with every result."""

from __future__ import annotations

import math
from typing import Any

import msgspec

VERIFIED = "verified"
CONDITIONAL = "conditional on a sensitivity that was searched, not proved"
PUBLISHED = "published claim"
NONE = "no guarantee"


class SiteGuarantee(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for one site's records."""

    mu: float
    epsilon: float
    delta: float
    n_records: int


class Guarantee(msgspec.Struct, frozen=True, kw_only=True):
    """What may be claimed about a result, and everything it rests on.

    Attributes
    ----------
    epsilon, delta, mu : the figures for the site that is protected least; ``sites`` has every site's.
    epsilon_output_only : the same against somebody who sees only the result.
    unit : what is protected: "record" or "subject"; ``owner_note`` says how a person relates to it.
    against : whom the figures hold against, in words.
    public : what is taken as known to everybody.
    releases : number of releases paid for.
    minimum_sites, n_colluding, took_part : who had to finish, may collude, and finished every release.
    assumptions : what the figures rest on besides arithmetic.
    status : "verified", "published claim" or "no guarantee"; or conditional, where an author's statement is assumed.
    replayable : True if noise came from a seed: then nothing is protected, whatever the figures say.
    by_colluders : epsilon against the aggregator with 0, 1, ... other sites; beyond ``n_colluding`` from a site's own
        noise alone. Empty if not known.
    """

    epsilon: float
    delta: float
    mu: float
    epsilon_output_only: float
    unit: str
    owner_note: str
    against: str
    protocol: str
    public: tuple[str, ...]
    releases: int
    n_colluding: int
    minimum_sites: int
    took_part: tuple[str, ...]
    sites: dict[str, SiteGuarantee]
    assumptions: tuple[str, ...]
    status: str = VERIFIED
    replayable: bool = False
    neighbours: str = "replace one"
    by_colluders: tuple[float, ...] = ()

    def sentence(self) -> str:
        """Return the guarantee as one sentence a data steward can read."""
        if self.status == NONE:
            return f"No privacy guarantee: exact totals of every site were released ({self.protocol})."
        note = f" ({self.owner_note})" if self.owner_note else ""
        text = (
            f"({round_up(self.epsilon)}, {round_up(self.delta, 6)})-differentially private per {self.unit}{note}, when "
            f"one {self.unit} of one site is replaced, against {self.against}; {self.releases} "
            f"release{'s' if self.releases > 1 else ''}, at least {self.minimum_sites} of {len(self.sites)} "
            f"site{'s' if len(self.sites) > 1 else ''} finishing; public: {', '.join(self.public)}; "
            f"exact integer noise; {self.status}. Assumed: {'; '.join(self.assumptions)}."
        )
        if self.replayable:
            return f"REPLAYABLE: NO PROTECTION. The noise came from a seed. With fresh noise this would be: {text}"
        return text

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; infinities become null."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        plain["sentence"] = self.sentence()
        return _without_infinities(plain)  # type: ignore[no-any-return]  # a mapping in, a mapping out

    def to_json(self) -> str:
        """Return the guarantee as a JSON object."""
        return msgspec.json.encode(self.to_dict()).decode()

    def __str__(self) -> str:
        return self.sentence()

    def _repr_html_(self) -> str:
        # Drawn only where somebody looks at it: what is revealed does not depend on how it is shown.
        from dpcape.report.card import card_html, card_of

        return card_html(card_of(self))

    def lines(self) -> list[tuple[str, str]]:
        """Return the guarantee as labelled lines, for cards and tables."""
        if self.status == NONE:
            return [("guarantee", self.sentence())]
        lines = [
            ("epsilon", f"{round_up(self.epsilon)} at delta {round_up(self.delta, 6)} (mu {round_up(self.mu, 5)})"),
            (
                "protects",
                f"one {self.unit} of one site, replaced" + (f"; {self.owner_note}" if self.owner_note else ""),
            ),
            ("against", self.against),
            ("result alone", f"epsilon {round_up(self.epsilon_output_only)}"),
            ("releases", str(self.releases)),
            ("took part", ", ".join(self.took_part)),
            ("must finish", f"{self.minimum_sites} of {len(self.sites)} sites"),
            ("public", ", ".join(self.public)),
            ("assumes", "; ".join(self.assumptions)),
            ("status", self.status),
        ]
        if self.replayable:
            lines.insert(0, ("warning", "replayable: no protection. The noise came from a seed."))
        return lines


def round_up(value: float, digits: int = 4) -> str:
    """Write a number with ``digits`` significant digits, rounded up, so that a printed epsilon is never too small.

    Examples
    --------
    >>> round_up(0.9999995), round_up(1.00001)
    ('1', '1.001')
    """
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    exponent = math.floor(math.log10(abs(value))) - digits + 1
    unit = 10.0**exponent
    # A value that is a short decimal up to floating-point dust must not gain a digit.
    rounded = math.ceil(value / unit * (1 - 1e-13)) * unit
    return f"{rounded:.{digits}g}"


def _without_infinities(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_infinities(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_without_infinities(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
