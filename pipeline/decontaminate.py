"""Stage decontaminate: drop training problems that repeat a protected one.

Reads  work/filter/kept.jsonl, work/filter/panel.jsonl, work/prepare/protected.json, the
       files that it lists, and work/semantic/neighbours.jsonl
Writes work/decontaminate/: kept.jsonl, dropped.jsonl, review.jsonl, report.md, then
       report.json
Run    dvc repro decontaminate    or    python -m pipeline.decontaminate
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from pipeline.base.artifacts import read_json, write_json, write_jsonl, write_text
from pipeline.base.errors import UserError
from pipeline.base.params import Params
from pipeline.base.progress import Progress
from pipeline.base.records import Problem, write_rows
from pipeline.base.stage import run_stage
from pipeline.corpus.execution.executor import run_shards
from pipeline.corpus.execution.scratch import forget_scratch, scratch_folder
from pipeline.corpus.execution.shards import line_shards
from pipeline.corpus.funnel import nothing_left
from pipeline.corpus.overlap.boilerplate import Excuses
from pipeline.corpus.overlap.cosines import NEIGHBOURS, write_cosines
from pipeline.corpus.overlap.division import divide
from pipeline.corpus.overlap.findings import Findings
from pipeline.corpus.overlap.protected import load_sets
from pipeline.corpus.overlap.protected_index import ProtectedIndex
from pipeline.corpus.overlap.report import describe, render
from pipeline.corpus.overlap.search import SearchJob, prepare, search_shard

KEPT = Path("work/filter/kept.jsonl")
PROTECTED = Path("work/prepare/protected.json")
OUT = Path("work/decontaminate")


def identity(path: Path) -> list[int]:
    """What changes when a file is written anew: size in bytes, time, inode.

    Raises:
        UserError: the file is missing.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        raise UserError(
            f"{path}: file not found", "Run the stage that makes it: `dvc repro`."
        ) from None
    return [status.st_size, status.st_mtime_ns, status.st_ino]


def search(
    params: Params, items: list[Problem], scratch: Path
) -> tuple[ProtectedIndex, list[Path]]:
    """Index what is protected and search all shards; return the index and their folders."""
    settings = params.decontaminate
    job = SearchJob(
        scratch / "protected.pickle", settings.paraphrase_cosine, scratch / "cosines.npy"
    )
    index = prepare(items, settings.ngram_words, job.index)
    write_cosines(items, settings.review_cosine, job.cosines)
    shards = line_shards(KEPT, int(params.executor.shard_mib * 2**20))
    progress = Progress("decontaminate", "rows", None)
    sizes = [shard.bytes for shard in shards]
    folders = run_shards(
        "search", search_shard, job, shards, scratch, params.executor, progress, sizes
    )
    return index, folders


def main(params: Params) -> None:
    """Search for what resembles a protected problem, excuse boilerplate, apply the policy."""
    settings = params.decontaminate
    sets = load_sets(read_json(PROTECTED))
    items = [problem for one in sets for problem in one.problems]
    inputs = {str(path): identity(path) for path in (KEPT, NEIGHBOURS, PROTECTED)}
    ids = [[item.source, item.id] for item in items]
    limits = [settings.ngram_words, settings.paraphrase_cosine, settings.review_cosine]
    size = params.executor.shard_mib
    scratch = scratch_folder("decontaminate", [inputs, ids, limits, size])
    index, folders = search(params, items, scratch)
    findings = Findings(index, settings.policy, settings.boilerplate_share, folders)
    counts = findings.count()
    write_jsonl(OUT / "review.jsonl", findings.decide(Excuses.of(counts)))
    division = divide(KEPT, folders, findings.dropped, OUT / "kept.jsonl")
    kept, dropped = division.kept, division.dropped
    write_rows(OUT / "dropped.jsonl", dropped)
    reasons = Counter(row.reason for row in dropped)
    if not kept:
        examples = {row.reason: f"{row.origin}: {row.detail}" for row in reversed(dropped)}
        raise nothing_left(len(dropped), reasons, str(OUT / "dropped.jsonl"), examples)
    report = describe(kept, reasons, division.hits, sets, findings, counts, settings)
    write_text(OUT / "report.md", render(report))
    write_json(OUT / "report.json", report)
    forget_scratch(scratch)
    classes = ", ".join(f"{count:,} {name}" for name, count in report["classes"].items() if count)
    print(
        f"decontaminate: {kept:,} kept, {len(dropped):,} dropped; problems that resemble a "
        f"protected one: {classes or 'none'}",
        flush=True,
    )


if __name__ == "__main__":
    raise SystemExit(run_stage("decontaminate", main))
