"""Stage export: the trained adapter as PEFT 0.9.0 reads it.

Reads work/train/adapter/; writes work/export/adapter/ and, last,
work/export/export.json. Run it with `dvc repro export`, or alone with
`python -m pipeline.export`.
"""

from __future__ import annotations

from pathlib import Path

from pipeline.base.adapter_format import WEIGHTS_FILE
from pipeline.base.artifacts import read_json, sha256_file, write_json
from pipeline.base.params import Params
from pipeline.base.stage import run_stage
from pipeline.release.adapter import export_folder

TRAINED = Path("work/train/adapter")
TRAIN_RECORD = Path("work/train/train.json")
OUT = Path("work/export")


def main(params: Params) -> None:
    """Export the final adapter and say what the conversion cost."""
    record = read_json(TRAIN_RECORD)
    done = export_folder(TRAINED, OUT / "adapter", params.export.dtype)
    source = {
        "run_key": record["run_key"],
        "base_fingerprint": record["base_fingerprint"],
        "source_sha256": sha256_file(TRAINED / WEIGHTS_FILE),
    }
    write_json(OUT / "export.json", {**done, **source})
    print(
        f"export: {done['elements']:,} elements in {done['dtype']}, "
        f"{done['bytes'] / 2**20:.1f} MiB, rank {done['rank']}, "
        f"largest rounding error {done['max_rounding_error']:.3g} "
        f"({done['max_relative_rounding_error']:.2%} of the value)"
    )


if __name__ == "__main__":
    raise SystemExit(run_stage("export", main))
