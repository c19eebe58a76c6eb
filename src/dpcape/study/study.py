"""The study file: one TOML text that says what is computed, by whom, under which privacy, on which columns.

The same file runs in process and on a federation. Approval at a site is bound to :meth:`Study.digest`.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpcape.errors import InvalidParameter, ProtocolError
from dpcape.facts import Facts
from dpcape.privacy.gaussian import mu_of
from dpcape.privacy.ledger import Charge
from dpcape.privacy.terms import DELTA_RESERVE, Terms, check_epsilons, epsilon_reserve, tail_reserve
from dpcape.protocols import Exact, Protocol
from dpcape.protocols.registry import make_protocol
from dpcape.records import Records
from dpcape.records.data_plan import DataPlan
from dpcape.study.analyses import analyses, parameters
from dpcape.study.data import read_data
from dpcape.study.sites import StudySite, read_members
from dpcape.study.toml_reader import TomlSource, TomlTable, is_number, without_dates

if TYPE_CHECKING:
    from dpcape.estimators.estimator import FederatedEstimator

PROTOCOLS = ("cape", "secure-sum", "independent", "dealer", "exact")
TABLES = ("study", "protocol", "sites", "data", "federation")


@dataclass(frozen=True)
class Study:
    """A study as the consortium agreed on it.

    Attributes
    ----------
    name : str
        Safe in file names.
    analysis : str
        Name of the analysis, such as "pca".
    parameters : mapping
        Its parameters besides epsilon and delta.
    epsilon : float or mapping from site to float
    delta : float
    members : mapping from site name to what the study says of the site
    deadline : float or None
        Seconds to wait for each answer.
    data : DataPlan
        What the records are, in public.
    federation : mapping or None
        Settings of the engine; None runs in process.
    text : str
        The file as written.
    folder : Path
        Where files that belong to the study stand; ``files`` has their digests.

    Edge cases
    ----------
    ==========================================  ============================================
    a table, field or site that does not exist  InvalidParameter with file, line and column
    comments or layout changed                  same digest
    a columns, schema or mask file changed      another digest
    ==========================================  ============================================

    Examples
    --------
    >>> text = '''
    ... [study]
    ... name = "first"
    ... analysis = "mean"
    ... epsilon = 1.0
    ... delta = 1e-5
    ... [protocol]
    ... kind = "independent"
    ... [sites.lyon]
    ... [data]
    ... kind = "rows"
    ... columns = ["age", "thickness"]
    ... bound = 1.0
    ... '''
    >>> study = Study.parse(text)
    >>> study.sites, study.protocol()
    (('lyon',), Independent(minimum_sites=None))
    """

    name: str
    analysis: str
    parameters: Mapping[str, Any]
    epsilon: float | Mapping[str, float]
    delta: float
    settings: Mapping[str, Any]
    deadline: float | None
    members: Mapping[str, StudySite]
    data: DataPlan
    federation: Mapping[str, Any] | None
    text: str
    folder: Path
    content: Mapping[str, Any]
    files: Mapping[str, str]

    @classmethod
    def load(cls, path: str | Path) -> Study:
        """Read and check a study file."""
        where = Path(path)
        try:
            text = where.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidParameter(
                f"a study must be a readable text file; got {str(path)!r} ({type(error).__name__})."
            ) from error
        return cls.parse(text, path=where)

    @classmethod
    def parse(cls, text: str, *, path: str | Path = "study.toml") -> Study:
        """Read and check the text of a study; files it names stand beside ``path``."""
        where = Path(path)
        source = TomlSource(text, where.name)
        for key in source.content:
            if key not in TABLES:
                message = f"a study must have the tables {', '.join(TABLES)} and no others; got {key!r}."
                source.fail((key,), message, at_key=True)
        members = read_members(source)
        data_section = TomlTable(source, ("data",))
        data = read_data(data_section, where.parent)
        settings, deadline = _read_protocol(TomlTable(source, ("protocol",)), len(members))
        head = _read_head(TomlTable(source, ("study",)), members, settings)
        study = cls(
            **head,
            settings=settings,
            deadline=deadline,
            members=members,
            data=data,
            federation=_read_federation(source),
            text=text,
            folder=where.parent,
            content=source.content,
            # Taken now: a file that changes later must not change what this study is.
            files={_relative(path, where.parent): _sha256(path) for path in data.files},
        )
        data_section.within(None, study.facts)
        TomlTable(source, ("study",)).within("analysis", lambda: study.shares(dict.fromkeys(members, 2**20)))
        return study

    @property
    def sites(self) -> tuple[str, ...]:
        """Names of the sites, sorted."""
        return tuple(sorted(self.members))

    def digest(self) -> str:
        """Return the SHA-256 of the content, and of the files the study names, in hexadecimal.

        Comments and layout do not count; every value does.
        """
        canonical = json.dumps(["dpcape study 1", self.content, self.files], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode("utf-8")).hexdigest()

    def estimator(self) -> FederatedEstimator:
        """Return the analysis, not fitted yet."""
        kind = analyses()[self.analysis]
        epsilon = dict(self.epsilon) if isinstance(self.epsilon, Mapping) else self.epsilon
        estimator: FederatedEstimator = kind(**self.parameters, epsilon=epsilon, delta=self.delta)
        return estimator

    def protocol(self) -> Protocol:
        """Return the protocol the sites run."""
        return _make_protocol(self.settings)

    @property
    def weights(self) -> dict[str, float]:
        """Weight of each site; empty for weights proportional to records."""
        return {name: member.weight for name, member in self.members.items() if member.weight is not None}

    def epsilon_of(self, site: str) -> float:
        """Return the epsilon of one site."""
        return float(self.epsilon[site] if isinstance(self.epsilon, Mapping) else self.epsilon)

    def records_for(self, site: str, source: str | Path) -> Records:
        """Build the records of a site from a local file."""
        from dpcape.records.readers.files import open_file

        self._require_site(site)
        return self.data.records(open_file(source, self.data))

    def synthetic_records(self, site: str, n_records: int) -> Records:
        """Make up records of the declared shape; nothing real is touched."""
        from dpcape.study.made_up import MadeUp

        return self.data.records(MadeUp(self.data, n_records, self.sites.index(self._require_site(site))))

    def facts(self) -> Facts:
        """Return the public facts every site's records must have, without their number."""
        return self.synthetic_records(self.sites[0], 4).facts().shape_facts()

    def shares(self, n_records: Mapping[str, int]) -> tuple[float, ...]:
        """Return the shares of mu^2 the analysis asks for, one per release."""
        from dpcape.planning.rehearsal import declared_federation

        return tuple(self.estimator()._shares(declared_federation(self, n_records)))

    def charge(self, site: str) -> Charge:
        """Return what a whole run costs a site: what its ledger is asked before any data is read."""
        if self.settings["kind"] == "exact":
            return Charge(allowance="", mu=math.inf, gap=0.0, tail=0.0, n_releases=1)
        epsilon = self.epsilon_of(self._require_site(site))
        mu = mu_of(epsilon - epsilon_reserve(epsilon), self.delta * (1 - DELTA_RESERVE))
        return Charge(allowance="", mu=mu, gap=epsilon_reserve(epsilon), tail=tail_reserve(self.delta), n_releases=1)

    def check_terms(self, terms: Terms) -> None:
        """Refuse terms of an allowance that are not this study's."""
        present = self._present(terms.sites)
        asked = (terms.settings, terms.sites, terms.delta, terms.weights)
        agreed = (self.protocol().settings(len(present)), present, self.delta, self.weights)
        for subject, got, wanted in zip(("protocol", "sites", "delta", "weights"), asked, agreed, strict=True):
            _require_same(subject, got, wanted)
        epsilons = {name: self.epsilon_of(name) for name in present if terms.settings.name != "exact"}
        _require_same("epsilon", terms.epsilons, epsilons)
        shares = self.shares(terms.n_records)
        # Shares may come out of a numerical search, which rounds differently on other machines.
        close = (math.isclose(got, wanted, rel_tol=1e-6) for got, wanted in zip(terms.shares, shares, strict=False))
        _require_same("number of releases", len(terms.shares), len(shares))
        if not all(close):
            raise ProtocolError("the shares of the releases must be what the approved study says; got others.")

    def _present(self, sites: tuple[str, ...]) -> tuple[str, ...]:
        """Return the sites that may take part: the study's, or as many of them as ``minimum_sites`` asks for.

        A site may be missing from the start as it may be lost later; noise is then sized for those that are there.
        """
        is_part = set(sites) < set(self.sites) and len(set(sites)) >= self.minimum_sites()
        return tuple(site for site in self.sites if site in sites) if is_part else self.sites

    def minimum_sites(self) -> int:
        """Return how many sites must take part. Weights, and an epsilon of each site's own, name all of them."""
        names_all = bool(self.weights) or isinstance(self.epsilon, dict)
        return len(self.sites) if names_all else self.protocol().settings(len(self.sites)).minimum_sites

    def _require_site(self, site: str) -> str:
        if site not in self.members:
            raise InvalidParameter(f"a site must be one of {', '.join(self.sites)}; got {site!r}.")
        return site


def _read_head(section: TomlTable, members: Mapping[str, StudySite], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Read the [study] table."""
    known = analyses()
    analysis = section.choice("analysis", tuple(known))
    head = {"name": section.name("name"), "analysis": analysis, "epsilon": _epsilon(section, members)}
    delta = section.number("delta")
    if delta is None or not 0 < delta < 1:
        section.fail("delta", "strictly between 0 and 1")
    wanted = parameters(known[analysis])
    values = {name: section.value(name) for name in wanted}
    given = {name: value for name, value in values.items() if value is not None}
    for name, required in wanted.items():
        if required and name not in given:
            section.fail(name, f"given for {analysis}")
        if name in given and not _is_parameter(given[name]):
            section.fail(name, "a text, a number, true, false, or a list of them")
    section.finish()
    return {**head, "delta": delta, "parameters": given}


def _epsilon(section: TomlTable, members: Mapping[str, StudySite]) -> float | dict[str, float]:
    value = section.value("epsilon")
    per_site = value if isinstance(value, dict) else dict.fromkeys(members, value)
    if not all(is_number(entry) for entry in per_site.values()):
        section.fail("epsilon", "a positive finite number, or a table with one per site")
    numbers = {str(site): float(entry) for site, entry in per_site.items()}
    section.within("epsilon", lambda: check_epsilons(numbers, tuple(sorted(members))))
    return numbers if isinstance(value, dict) else float(value)


def _read_protocol(section: TomlTable, n_sites: int) -> tuple[dict[str, Any], float | None]:
    kind = section.choice("kind", PROTOCOLS)
    deadline = section.seconds("deadline")
    settings: dict[str, Any] = {"kind": kind}
    if kind in ("cape", "secure-sum", "dealer"):
        settings["n_colluding"] = section.count("n_colluding")
    if kind in ("cape", "secure-sum", "independent") and "minimum_sites" in section:
        settings["minimum_sites"] = section.count("minimum_sites", least=1)
    if kind in ("cape", "dealer") and "cancelling_ratio" in section:
        settings["cancelling_ratio"] = section.number("cancelling_ratio")
    section.finish()
    section.within("kind", lambda: _make_protocol(settings).settings(n_sites))
    return settings, deadline


def _make_protocol(settings: Mapping[str, Any]) -> Protocol:
    options = {key: value for key, value in settings.items() if key != "kind"}
    if settings["kind"] == "exact":
        return Exact()
    return make_protocol(settings["kind"], n_colluding=options.pop("n_colluding", 0), **options)


def _read_federation(source: TomlSource) -> dict[str, Any] | None:
    """Read the [federation] table; all but the engine is the engine's own business."""
    if "federation" not in source.content:
        return None
    section = TomlTable(source, ("federation",))
    engine = section.choice("engine", ("flare",))
    rest = section.left()
    for key, value in rest.items():
        if not without_dates(value):
            section.fail(key, "made of texts, finite numbers, true, false, lists and tables")
    return {"engine": engine, **rest}


def _is_parameter(value: Any) -> bool:
    return not isinstance(value, dict) and without_dates(value)


def _require_same(subject: str, got: object, wanted: object) -> None:
    if got != wanted:
        raise ProtocolError(f"the {subject} of an allowance must be what the approved study says; got {got!r}.")


def _relative(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix()


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
