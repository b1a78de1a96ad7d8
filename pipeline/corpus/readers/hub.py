"""Data sets of the hub, pinned by commit: `hub:OWNER/NAME@COMMIT[/file, folder or glob]`.

Downloads once into runs/hub/ on a machine that is online; a finished download is never
asked for again, so that the run itself needs no network. Called by places.py, for
`python -m pipeline.prepare`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import huggingface_hub
from huggingface_hub import constants

from pipeline.base.artifacts import is_complete, mark_complete, sha256_text
from pipeline.base.errors import UserError

PREFIX = "hub:"
CACHE = Path("runs/hub")
_NAME = re.compile(r"hub:([\w.-]+(?:/[\w.-]+)?)@([^/]+)(?:/(.+))?")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class HubSource:
    """A data set, one of its commits, and which of its files; empty `part` means all."""

    name: str
    commit: str
    part: str

    @property
    def folder(self) -> Path:
        """Where its files lie once they are here."""
        chosen = f"-{sha256_text(self.part)[:8]}" if self.part else ""
        return CACHE / f"{self.name.replace('/', '--')}@{self.commit}{chosen}"


def parse_hub(text: str) -> HubSource:
    """The parts of a `hub:` source.

    Raises:
        UserError: it is not of that form, or names a branch instead of a commit.
    """
    found = _NAME.fullmatch(text)
    if found is None:
        raise UserError(
            f"{text}: not of the form hub:OWNER/NAME@COMMIT",
            "Correct `data.sources` in params.yaml.",
        )
    name, commit, part = found.groups(default="")
    if not _COMMIT.fullmatch(commit):
        raise UserError(
            f"{text}: {commit!r} is no commit; a branch or tag may change under a run",
            "Give the 40 hexadecimal digits that the data set's history page shows.",
        )
    return HubSource(name, commit, part)


def fetch(source: HubSource, patterns: list[str]) -> Path:
    """The folder with the files of a source, downloaded unless they are there.

    Args:
        patterns: files to take where the source names none.

    Raises:
        UserError: the machine is offline, or the hub does not give the files.
    """
    folder = source.folder
    if is_complete(folder):
        return folder
    label = f"hub:{source.name}@{source.commit}"
    if constants.HF_HUB_OFFLINE:
        raise UserError(
            f"{label}: not downloaded yet, and HF_HUB_OFFLINE keeps this process off the network",
            "Run `HF_HUB_OFFLINE=0 python -m pipeline.prepare` once on a machine that is online, "
            f"or copy {folder} from one.",
        )
    wanted = [source.part, f"{source.part.rstrip('/')}/*"] if source.part else patterns
    try:
        huggingface_hub.snapshot_download(
            source.name,
            repo_type="dataset",
            revision=source.commit,
            local_dir=folder,
            allow_patterns=wanted,
        )
    except (OSError, ValueError) as error:
        raise UserError(
            f"{label}: download failed ({' '.join(str(error).split())[:300]})",
            "Check name, commit and network; a gated data set needs HF_TOKEN. "
            "What has arrived is kept: run again.",
        ) from None
    mark_complete(folder, {"source": label, "patterns": wanted})
    return folder
