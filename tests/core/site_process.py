"""Sites in a process of their own: only bytes come in and go out, and at the end the names of what was loaded."""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path


def read(stream) -> bytes:  # type: ignore[no-untyped-def]  # any binary stream
    return stream.read(struct.unpack(">Q", stream.read(8))[0])


def write(stream, data: bytes) -> None:  # type: ignore[no-untyped-def]  # any binary stream
    stream.write(struct.pack(">Q", len(data)) + data)
    stream.flush()


def main(here: Path, names: list[str]) -> None:
    from dpcape.site.folder import SiteFolder

    folders = {name: SiteFolder.create(here / name, name=name) for name in names}
    for name, folder in folders.items():
        folder.add_data("cohort", (here / f"{name}.csv").resolve(), epsilon=5.0, delta=1e-5)
        for other in names:
            if other != name:
                folder.pin(other, folders[other].identity.public.hex())
    sites = {}
    for name, folder in folders.items():
        study = folder.load_study(here / "study.toml")
        folder.approve(study, "cohort")
        sites[name] = folder.site_for(study)
    coming, going = sys.stdin.buffer, sys.stdout.buffer
    write(going, b"ready")
    while name := read(coming).decode():
        write(going, sites[name].answer(read(coming)))
    loaded = {name: getattr(module, "__file__", None) for name, module in sys.modules.items()}
    write(going, json.dumps({name: file for name, file in loaded.items() if name.startswith("dpcape")}).encode())
    write(going, json.dumps(sorted({name.partition(".")[0] for name in loaded})).encode())


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
