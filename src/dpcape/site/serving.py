"""What stands in a participant's own kit, beside FLARE's files: which site folder to open, and whom to obey."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from dpcape.errors import InvalidParameter, ProtocolError
from dpcape.files import write_private
from dpcape.noise import Replay
from dpcape.site.folder import SiteFolder
from dpcape.site.ledger import check_approved

SETTINGS_FILE = "dpcape.json"
COORDINATOR_KEY = "coordinator.key"
SETTINGS_VERSION = 1


class SiteSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A site's own settings.

    Attributes
    ----------
    coordinator : str
        Public key, in hexadecimal, of the coordinator whose requests the site takes.
    folder : str or None
        The site folder: identity, ledger, approvals.
    data : str or None
        Name of the data set to serve; None takes the one the approval names.
    replay_for_tests : int or None
        Seed of replayable noise. For tests alone: the guarantee then says "no protection".
    """

    version: int = SETTINGS_VERSION
    coordinator: str
    folder: str | None = None
    data: str | None = None
    replay_for_tests: int | None = None

    @classmethod
    def load(cls, path: str | Path) -> SiteSettings:
        """Read the settings of a kit."""
        try:
            settings = msgspec.json.decode(Path(path).read_bytes(), type=cls)
        except (OSError, msgspec.DecodeError) as error:
            raise InvalidParameter(
                f"{SETTINGS_FILE} of a kit must be readable; got {type(error).__name__}. Run 'dpcape site serve' again."
            ) from error
        if settings.version != SETTINGS_VERSION:
            raise InvalidParameter(f"{SETTINGS_FILE} must be of version {SETTINGS_VERSION}; got {settings.version}.")
        return settings

    def save(self, path: str | Path) -> None:
        """Write the settings, for the owner's eyes only."""
        write_private(Path(path), msgspec.json.format(msgspec.json.encode(self), indent=1))


def open_study(settings: SiteSettings, site: str, digest: str) -> Callable[[bytes], bytes]:
    """Open the study of this digest as the site approved it, and return ``Site.answer``."""
    if settings.folder is None:
        raise ProtocolError(f"{site} must be served with its site folder; got a kit without one.")
    folder = SiteFolder(settings.folder)
    if folder.name != site:
        raise ProtocolError(f"the site folder at {site} must be its own; got another site's.")
    # Refused here if no study of this digest is approved; what the steward approved is what is run.
    check_approved(folder.state(), digest, settings.data)
    noise = None if settings.replay_for_tests is None else Replay(settings.replay_for_tests)
    return folder.site_for(folder.study(digest), settings.data, noise=noise).answer
