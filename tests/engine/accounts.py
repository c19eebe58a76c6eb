"""A Python that the engine's account can run, where the tests' own cannot be (for instance below root's home)."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
from functools import cache
from pathlib import Path

ENGINE_UID = 65534


@cache
def engine_python() -> str:
    """Return this interpreter, or one of the same version that an ordinary account can run with the same packages."""
    if os.geteuid() != 0 or _runs(sys.executable):
        return sys.executable
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    system = Path("/usr/bin") / version
    assert system.is_file(), f"root's Python cannot be run by others, and there is no {system}"
    place = Path(tempfile.mkdtemp(prefix="dpcape-test-python-"))
    packages = place / "lib" / version / "site-packages"
    packages.mkdir(parents=True)
    (place / "bin").mkdir()
    (place / "bin" / "python3").symlink_to(system)
    (place / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\n")
    (packages / "tests.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    for folder in (place, *place.rglob("*")):
        if folder.is_dir():
            folder.chmod(0o755)
    assert _runs(str(place / "bin" / "python3"))
    return str(place / "bin" / "python3")


def _runs(python: str) -> bool:
    """Whether the engine's account can import dpcape with an interpreter."""
    try:
        done = subprocess.run(
            [python, "-I", "-c", "import dpcape, numpy"],
            user=ENGINE_UID,
            group=ENGINE_UID,
            extra_groups=[],
            cwd="/",
            capture_output=True,
            check=False,
        )
    except OSError:
        return False
    return done.returncode == 0


def engine_environment() -> dict[str, str]:
    """Return the environment in which ``dpcape site serve`` finds that Python."""
    return {**os.environ, "DPCAPE_ENGINE_PYTHON": engine_python()}
