"""The study file: one TOML file with the analysis, the sites, the privacy parameters and the columns.

The same file runs in one process and on a federation. Approval at a site is bound to :meth:`Study.digest`.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dpcape.analyses.description import Analysis, Public, public_facts
from dpcape.analyses.registry import NO_PACKAGE
from dpcape.core.enclosed import Enclosure
from dpcape.core.errors import InvalidMessage, InvalidParameter, ProtocolError
from dpcape.core.facts import PublicFacts
from dpcape.core.privacy.calibration import noise_ratio
from dpcape.core.privacy.gaussian import mu_of
from dpcape.core.privacy.ledger import Charge
from dpcape.core.privacy.terms import DELTA_RESERVE, Terms, check_delta, epsilon_reserve, tail_reserve
from dpcape.core.privacy.unit import Unit
from dpcape.core.protocols.protocol import Protocol
from dpcape.records.data_plan import DataPlan
from dpcape.records.kinds import Records
from dpcape.records.sources import Source
from dpcape.study.data import read_data
from dpcape.study.federation_table import read_federation
from dpcape.study.other_packages import Describe, known_analyses, read_enclosure
from dpcape.study.protocol_table import protocol_of, read_protocol
from dpcape.study.sites import StudySite, read_members
from dpcape.study.study_table import read_head, spell_analysis
from dpcape.study.toml_reader import TomlSource, TomlTable

# Number of records per site assumed where only the names of statistics are needed.
_SOME_RECORDS = 1000
TABLES = ("study", "protocol", "sites", "data", "federation", "package")


@dataclass(frozen=True)
class Study:
    """Study that a consortium agreed on.

    Attributes
    ----------
    name : str
        Name of the study, safe in file names.
    analysis : str
        Name of the analysis, such as "pca".
    parameters : mapping
        Its parameters besides epsilon and delta.
    epsilon : float or mapping
        Epsilon of all sites, or of each site.
    delta : float
        Delta of all sites.
    settings : mapping
        Kind and parameters of the protocol.
    deadline : float or None
        Seconds to wait for each answer.
    members : mapping
        Entry of the study for each site, by name.
    data : DataPlan
        Public description of the records.
    federation : mapping or None
        Settings of the engine; None to run in one process.
    text : str
        The file as written.
    folder : Path
        Folder of the files that belong to the study.
    content : mapping
        The parsed file.
    files : mapping
        SHA-256 of each file that belongs to the study, by relative path.
    description : Analysis
        Description of the analysis.
    enclosure : Enclosure or None
        How statistics of another package are computed at the sites; None for dpcape's own analyses.
    accept_large_delta : bool
        Whether a delta above 1/N, N the number of records over all sites, is accepted.

    Edge cases
    ----------
    ==========================================  ============================================
    a table, field or site that does not exist  InvalidParameter with file, line and column
    comments or layout changed                  same digest
    a columns, schema or mask file changed      different digest
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
    parameters: Mapping[str, object]
    epsilon: float | Mapping[str, float]
    delta: float
    settings: Mapping[str, float | str]
    deadline: float | None
    members: Mapping[str, StudySite]
    data: DataPlan
    federation: Mapping[str, Any] | None
    text: str
    folder: Path
    content: Mapping[str, object]
    files: Mapping[str, str]
    description: Analysis = field(compare=False, repr=False)
    enclosure: Enclosure | None = None
    accept_large_delta: bool = False

    @classmethod
    def load(
        cls, path: str | Path, *, packages: Container[str] = NO_PACKAGE, describe: Describe | None = None
    ) -> Study:
        """Return the study in a file, checked; ``packages`` and ``describe`` as in :meth:`parse`."""
        study_path = Path(path)
        try:
            text = study_path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            must, remedy = "be a readable UTF-8 text file", "Check the path."
            raise InvalidParameter("A study", must, f"{str(path)!r} ({type(error).__name__})", remedy) from error
        return cls.parse(text, path=study_path, packages=packages, describe=describe)

    @classmethod
    def parse(
        cls,
        text: str,
        *,
        path: str | Path = "study.toml",
        packages: Container[str] = NO_PACKAGE,
        describe: Describe | None = None,
    ) -> Study:
        """Return the study in a TOML text, checked.

        Parameters
        ----------
        text : str
            The study, as TOML.
        path : str or Path
            Path of the study; the files it names are relative to its folder.
        packages : container of str
            Distributions besides dpcape whose analyses it may name; reading a study loads the one it names.
        describe : callable or None
            Finds out elsewhere what must be known of an analysis of another package; None loads it in this process.

        Returns
        -------
        Study
            The study.
        """
        study_path = Path(path)
        source = TomlSource(text, study_path.name)
        spell_analysis(source.content)
        for key in source.content:
            if key not in TABLES:
                must = f"be {', '.join(TABLES)}"
                error = InvalidParameter("the tables of a study", must, repr(key), "Remove or rename it.")
                raise source.located((key,), error, at_key=True)
        members = read_members(source)
        data_section = TomlTable(source, ("data",))
        data = read_data(data_section, study_path.parent)
        settings, deadline = read_protocol(TomlTable(source, ("protocol",)), len(members))
        head = read_head(TomlTable(source, ("study",)), members, known_analyses(source, packages, describe))
        enclosure = read_enclosure(source, head["description"])
        if enclosure is not None:
            from dpcape.analyses.enclosed import enclosed

            head["description"] = enclosed(head["description"], enclosure)
        study = cls(
            **head,
            settings=settings,
            deadline=deadline,
            members=members,
            data=data,
            federation=read_federation(source, protocol_of(settings), members),
            text=text,
            folder=study_path.parent,
            content=source.content,
            # Computed now: a file that changes later must not change this study.
            files={
                path.relative_to(study_path.parent).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
                for path in data.files
            },
            enclosure=enclosure,
        )
        data_section.within(None, study.facts)
        TomlTable(source, ("study",)).within("analysis", lambda: study.shares(dict.fromkeys(members, 2**20)))
        return study

    @property
    def sites(self) -> tuple[str, ...]:
        """Names of the sites, sorted."""
        return tuple(sorted(self.members))

    @property
    def dealer(self) -> str:
        """Name of the participant that deals noise; empty if there is none."""
        return self.protocol().dealt_by

    @property
    def participants(self) -> tuple[str, ...]:
        """Names of the sites, and of the noise dealer if there is one."""
        return (*self.sites, *((self.dealer,) if self.dealer else ()))

    def digest(self) -> str:
        """Return the SHA-256 of the content, and of the files the study names, in hexadecimal.

        Comments and layout do not count; every value does.
        """
        canonical = json.dumps(["dpcape study 1", self.content, self.files], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode("utf-8")).hexdigest()

    def estimator(self) -> Any:
        """Return the analysis as an estimator, not fitted; imports its class (at the coordinator)."""
        epsilon = dict(self.epsilon) if isinstance(self.epsilon, Mapping) else self.epsilon
        return self.description.load()(**self.parameters, epsilon=epsilon, delta=self.delta)

    def protocol(self) -> Protocol:
        """Return the protocol."""
        return protocol_of(self.settings)

    @property
    def weights(self) -> dict[str, float]:
        """Weight of each site; empty for weights proportional to records."""
        return {name: member.weight for name, member in self.members.items() if member.weight is not None}

    def epsilon_of(self, site: str) -> float:
        """Return the epsilon of one site."""
        return float(self.epsilon[site] if isinstance(self.epsilon, Mapping) else self.epsilon)

    def records_for(self, site: str, source: str | Path | Source, *, rows_per_subject: int | None = None) -> Records:
        """Build the records of a site from a local file or a query.

        ``rows_per_subject`` is what the site's steward states of the data set.
        """
        from dpcape.records.readers.files import open_file

        self._require_site(site)
        plan = self.data.stating(rows_per_subject)
        return plan.records(open_file(source, plan), progress=sys.stderr.isatty())

    def synthetic_records(self, site: str, n_records: int) -> Records:
        """Return synthetic records of the declared shape; no data file is opened."""
        from dpcape.study.made_up import MadeUp

        return self.data.records(MadeUp(self.data, n_records, self.sites.index(self._require_site(site))))

    def facts(self) -> PublicFacts:
        """Return the public facts that every site's records must have, without their number."""
        return self.synthetic_records(self.sites[0], 4).facts().shape_facts()

    def public(self, n_records: Mapping[str, int]) -> Public:
        """Return the public numbers that determine the releases of the analysis, for sites of these sizes."""
        known = public_facts(self.facts(), sum(n_records.values()), len(n_records))
        n_sites = len(n_records)
        later = {"mu": self._smallest_mu, "total_mu": lambda: self._smallest_mu() / self._noise_ratio(n_sites)}
        return self.description.public(self.parameters, known, **later)

    def _smallest_mu(self) -> float:
        if not self.protocol().adds_noise:
            return math.inf
        return min(mu_of(self.epsilon_of(site), self.delta) for site in self.sites)

    def _noise_ratio(self, n_sites: int) -> float:
        protocol = self.protocol()
        return noise_ratio(protocol, n_sites) if protocol.adds_noise else 1.0

    def shares(self, n_records: Mapping[str, int]) -> tuple[float, ...]:
        """Return the shares of mu^2 of the analysis, one per release."""
        public = self.public(n_records)
        self.description.check(public)
        return self.description.shares(public)

    def statistics(self, n_records: Mapping[str, int] | None = None) -> frozenset[str]:
        """Return the names of all statistics the analysis may release, for sites of these sizes or of usual ones."""
        sizes = dict.fromkeys(self.sites, _SOME_RECORDS) if n_records is None else n_records
        return self.description.statistics(self.public(sizes))

    def inner_statistics(self) -> frozenset[str]:
        """Return the names of the statistics of another package that the analysis may release, enclosed."""
        from dpcape.analyses.enclosed import inner_statistics

        return inner_statistics(self.description, self.public(dict.fromkeys(self.sites, _SOME_RECORDS)))

    @property
    def unit(self) -> Unit:
        """What the study's epsilon is about, and the public number of records per subject if it states one."""
        return Unit(self.data.unit, self.data.rows_per_subject)

    def charge(self, site: str) -> Charge:
        """Return the charge of a whole run for a site, which its ledger checks before any data is read."""
        if not self.protocol().adds_noise:
            return Charge(allowance="", mu=math.inf, gap=0.0, tail=0.0, n_releases=1, unit=self.unit)
        epsilon = self.epsilon_of(self._require_site(site))
        mu = mu_of(epsilon - epsilon_reserve(epsilon), self.delta * (1 - DELTA_RESERVE))
        gap, tail = epsilon_reserve(epsilon), tail_reserve(self.delta)
        return Charge(allowance="", mu=mu, gap=gap, tail=tail, n_releases=1, unit=self.unit)

    def check_terms(self, terms: Terms) -> None:
        """Refuse terms of an allowance that differ from this study."""
        present = self._present(terms.sites)
        requested = (terms.settings, terms.sites, terms.delta, terms.weights)
        agreed = (self.protocol().settings(len(present)), present, self.delta, self.weights)
        for subject, got, wanted in zip(("protocol", "sites", "delta", "weights"), requested, agreed, strict=True):
            _require_same(subject, got, wanted)
        epsilons = {name: self.epsilon_of(name) for name in present} if self.protocol().adds_noise else {}
        _require_same("epsilon", terms.epsilons, epsilons)
        try:
            check_delta(terms, accepted=self.accept_large_delta)
        except InvalidParameter as error:
            # The error contains only public numbers, so the coordinator may read it.
            raise InvalidMessage(*error.args).at("The allowance was refused") from error
        shares = self.shares(terms.n_records)
        # Shares may result from a numerical search, which rounds differently on other machines.
        close = (math.isclose(got, wanted, rel_tol=1e-6) for got, wanted in zip(terms.shares, shares, strict=False))
        _require_same("number of releases", len(terms.shares), len(shares))
        if not all(close):
            why = "the shares of the releases differ from the approved study"
            raise ProtocolError("The allowance was refused", why, "Install the same dpcape version everywhere.")

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
            raise InvalidParameter("site", f"be one of {', '.join(self.sites)}", repr(site), "Use a name in the study.")
        return site


def _require_same(subject: str, got: object, wanted: object) -> None:
    if got != wanted:
        remedy = "Use the approved study."
        raise InvalidMessage(f"The {subject} of an allowance", "be as in the approved study", repr(got), remedy)
