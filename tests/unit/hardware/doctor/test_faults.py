"""Faults put into a run of ours: each is told from the run's own files, with its smallest fix."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pipeline.hardware.doctor.codes import CODES
from pipeline.hardware.doctor.diagnosis import Diagnosis, diagnose
from pipeline.hardware.doctor.folder import read_folder
from tests.support.broken_run import Row, changed, rates, write_run


def traceback(frame: str, code: str, error: str) -> str:
    """A Python traceback as a rank leaves it in error-0.txt."""
    head = "Traceback (most recent call last):\n"
    return f'{head}  File "/x/{frame}, line 7, in it\n    {code}\n{error}\n'


NEW_OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.50 GiB. GPU 0 has a total "
    "capacity of 31.00 GiB of which 1.20 GiB is free. Including non-PyTorch memory, this process "
    "has 29.80 GiB memory in use. Of the allocated memory 28.10 GiB is allocated by PyTorch, and "
    "512.00 MiB is reserved by PyTorch but unallocated."
)
OLD_OOM = (
    "RuntimeError: CUDA out of memory. Tried to allocate 1.50 GiB (GPU 0; 15.00 GiB total "
    "capacity; 13.20 GiB already allocated; 600.00 MiB free; 13.90 GiB reserved in total by "
    "PyTorch)"
)
IDLE_OOM = NEW_OOM.replace("512.00 MiB", "9.00 GiB").replace("28.10", "19.60")


def rate_100x(step: int, row: Row) -> Row:
    loss = 2.0 if step < 6 else 9.0 + math.sin(step)
    return {"loss": loss, "grad_norm": 40.0, "learning_rate": 100 * row["learning_rate"]}


def late_peak(step: int, _row: Row) -> Row:
    return {"learning_rate": rates(80, warmup=0.2)[step - 1]}


def never_full(step: int, _row: Row) -> Row:
    return {"learning_rate": rates(80, warmup=0.8)[step - 1]}


def bad_from_31(step: int, row: Row) -> Row:
    return {"loss": math.nan if step > 30 else row["loss"]}


def slower(step: int, _row: Row) -> Row:
    return {"tokens_per_second": 1200.0 if step < 40 else 410.0}


def first_hits(step: int, row: Row) -> Row:
    return {"grad_norm": 60.0 if step == 33 else row["grad_norm"]}


@dataclass
class Fault:
    """What is broken, what the doctor must say first, and the whole fix."""

    code: str
    fix: dict[str, Any]
    run: dict[str, Any] = field(default_factory=dict)


def logged(text: str, **more: Any) -> dict[str, Any]:
    return {"files": {"error-0.txt": text}, **more}


FAULTS = {
    "rate 100 times too high": Fault(
        "rate_too_high",
        {"train.learning_rate": 0.001},
        {"rows": changed(rate_100x), "train": {"learning_rate": 0.1}},
    ),
    "warm-up in micro-steps": Fault(
        "warmup_in_micro_steps", {"train.warmup_share": 0.0125}, {"rows": changed(late_peak)}
    ),
    "warm-up over most of the run": Fault(
        "warmup_too_long",
        {"train.warmup_share": 0.05},
        {"rows": changed(never_full), "train": {"warmup_share": 0.8}},
    ),
    "mask all zero in the data": Fault("nothing_trained", {}, {"trained": 0}),
    "mask all zero in the loss": Fault(
        "nothing_trained", {}, {"rows": changed(lambda _s, _r: {"loss": 0.0, "grad_norm": 0.0})}
    ),
    "adapter without gradients": Fault(
        "no_gradient", {}, {"rows": changed(lambda _s, _r: {"loss": 2.1, "grad_norm": 0.0})}
    ),
    "rate of zero": Fault(
        "rate_zero", {}, {"rows": changed(lambda _s, _r: {"loss": 2.1, "learning_rate": 0.0})}
    ),
    "rotary base too small": Fault(
        "wrong_rope", {"rope_theta": 1e6}, {"base": {"rope_theta": 10000.0}}
    ),
    "rotary base left out": Fault(
        "wrong_rope", {"rope_theta": 1e6}, {"base": {"rope_theta": None}}
    ),
    "sequences beyond the positions": Fault(
        "positions_beyond_base",
        {"plan.sequence_tokens": 4096},
        {"plan": {"sequence_tokens": 8192}, "base": {"max_position_embeddings": 4096}},
    ),
    "memory at the optimizer step": Fault(
        "oom_optimizer",
        {"train.optimizer": "adamw-8bit"},
        logged(traceback('step.py"', "self.optimizer.step()", NEW_OOM)),
    ),
    "memory in the backward pass, old wording": Fault(
        "oom_step",
        {"plan.micro_batch_sequences": 1},
        logged(traceback('step.py"', "loss.backward()", OLD_OOM)),
    ),
    "memory in the backward pass of one sequence": Fault(
        "oom_step",
        {"plan.gradient_checkpointing": True},
        logged(traceback('s.py"', "loss.backward()", NEW_OOM), plan={"micro_batch_sequences": 1}),
    ),
    "memory at the logits": Fault(
        "oom_logits",
        {"plan.micro_batch_sequences": 1},
        logged(traceback('loss.py"', "return cross_entropy(logits, targets)", NEW_OOM)),
    ),
    "memory while loading": Fault(
        "oom_load",
        {"train.base_quantization": "nf4"},
        logged(traceback('model.py"', "model = AutoModel.from_pretrained(base)", NEW_OOM)),
    ),
    "memory in pieces": Fault(
        "memory_fragmented",
        {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
        logged(traceback('step.py"', "loss.backward()", IDLE_OOM)),
    ),
    "NCCL timeout": Fault(
        "collective_timeout",
        {},
        logged(
            "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=88, "
            "OpType=ALLREDUCE) ran for 1800099 milliseconds before timing out."
        ),
    ),
    "rank hung": Fault(
        "rank_hung", {}, {"files": {"hangs.jsonl": '{"saved_step": 40, "doing": ["step 43"]}\n'}}
    ),
    "disk full": Fault(
        "disk_full", {}, logged(traceback('x.py"', "f.write()", "OSError: No space left on device"))
    ),
    "host memory": Fault("host_memory", {}, logged("the training processes ended with [-9, 1]")),
    "device lost": Fault(
        "device_lost", {}, logged("NVRM: Xid (PCI:0000:01:00): 79, it has fallen off the bus")
    ),
    "token beyond the vocabulary": Fault(
        "token_out_of_range", {}, logged("IndexError: index out of range in self")
    ),
    "not a number from step 31": Fault(
        "not_finite", {"train.learning_rate": 0.0005}, {"rows": changed(bad_from_31)}
    ),
    "fp16 that overflows": Fault(
        "loss_scale_collapsed",
        {"train.precision": "bfloat16"},
        {
            "plan": {"compute_dtype": "float16"},
            "files": {"checkpoint-000040/state.json": '{"step": 40, "loss_scale": 1.0}'},
        },
    ),
    "fp16 that ended": Fault(
        "loss_scale_collapsed",
        {"train.precision": "bfloat16"},
        logged("the loss or a gradient became infinite or not a number",
               plan={"compute_dtype": "float16"}),
    ),
    "leaking packs": Fault(
        "leaking_packs",
        {"document_lengths": "made again by `dvc repro -f tokenize`"},
        {"lengths": 10},
    ),
    "loss scaled by accumulation": Fault(
        "loss_scaled_by_accumulation",
        {"loss_reduction": "mean over the tokens of the step"},
        {"rows": changed(lambda _s, row: {"loss": 8 * row["loss"]}), "plan": {"accumulation": 8}},
    ),
    "clock too short": Fault(
        "clock_cut",
        {},
        {
            "files": {
                "journal.jsonl": '{"step": 0, "total": 900, "why": "plan"}\n'
                '{"step": 4, "total": 80, "why": "budget"}\n'
            }
        },
    ),
    "checkpoint damaged": Fault(
        "checkpoint_damaged", {}, {"files": {"checkpoint-000040/COMPLETE.rejected": "{}"}}
    ),
    "machine that became slow": Fault("slowed_down", {}, {"rows": changed(slower)}),
    "always clipped": Fault(
        "always_clipped",
        {"train.clip_norm": 0.6},
        {"train": {"clip_norm": 0.1}},
    ),
    "one wild gradient": Fault("gradient_spikes", {}, {"rows": changed(first_hits)}),
    "too few steps": Fault("too_few_steps", {}, {"rows": changed(lambda _s, _r: {}, 9),
                                                "job": {"first_total": 9}}),
}  # fmt: skip


def found_in(tmp_path: Path, fault: Fault) -> Diagnosis:
    job = fault.run.pop("job", None) if "job" in fault.run else None
    run = write_run(tmp_path, **fault.run)
    if job:
        text = (run / "job.json").read_text()
        (run / "job.json").write_text(text.replace('"first_total": 80', '"first_total": 9'))
        fault.run["job"] = job
    return diagnose(read_folder(run))


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_told_with_its_smallest_fix(name: str, tmp_path: Path) -> None:
    fault = FAULTS[name]
    found = found_in(tmp_path, fault)
    assert found.codes == [fault.code]
    assert found.findings[0].fix == fault.fix
    assert bool(found.findings[0].effect) == bool(fault.fix)
    assert found.findings[0].evidence
    assert found.verdict == {"fault": "fault", "warning": "warning"}[CODES[fault.code].grade]


def test_evidence_stands_in_the_files(tmp_path: Path) -> None:
    for number, fault in enumerate(FAULTS.values()):
        root = tmp_path / str(number)
        for line in found_in(root, fault).findings[0].evidence:
            places = [root / "runs/0123", root / "work", root]
            (path,) = [p / line.file for p in places if (p / line.file).is_file()]
            shown = path.read_text().split("\n")[line.number - 1]
            assert shown == line.text or line.text == "checkpoint rejected"


def test_a_sound_run_is_called_sound(tmp_path: Path) -> None:
    found = diagnose(read_folder(write_run(tmp_path)))
    assert (found.verdict, found.codes) == ("sound", [])


def test_a_run_without_figures_is_unknown(tmp_path: Path) -> None:
    found = diagnose(read_folder(write_run(tmp_path, rows=[])))
    assert (found.verdict, found.codes) == ("unknown", [])


def test_the_figures_of_a_run(tmp_path: Path) -> None:
    plan = {"sequence_tokens": 512, "ranks": 2, "micro_batch_sequences": 2, "accumulation": 4}
    found = diagnose(read_folder(write_run(tmp_path, plan=plan))).figures
    assert found["effective_batch"].value == 16
    assert found["tokens_per_step"].value == 8192
    assert found["total_steps"].value == 80
    assert found["warmup_share"].value == 0.05
    assert found["warmup_share_seen"].value == pytest.approx(0.05, abs=0.02)
    assert found["total_tokens"].value == 72000
    assert found["uniform_loss"].value == pytest.approx(11.931, abs=1e-3)


def test_a_plan_that_grew_is_no_long_warmup(tmp_path: Path) -> None:
    grown = (
        '{"step": 0, "total": 20, "why": "plan"}\n{"step": 3, "total": 80, "why": "time left"}\n'
    )
    run = write_run(tmp_path, changed(late_peak), files={"journal.jsonl": grown})
    assert diagnose(read_folder(run)).codes == []


def test_a_first_loss_of_random_weights_is_no_sum(tmp_path: Path) -> None:
    rows = changed(lambda _s, row: {"loss": 6.7 * row["loss"] / 2.02})
    found = diagnose(read_folder(write_run(tmp_path, rows, base={"vocab_size": 500})))
    assert found.codes == []


def test_a_loss_that_is_stuck_at_a_huge_rate(tmp_path: Path) -> None:
    rows = changed(lambda step, _r: {"loss": 4.9 + 0.02 * (-1) ** step})
    found = diagnose(read_folder(write_run(tmp_path, rows, train={"learning_rate": 3.0})))
    assert found.codes == ["rate_too_high"]
    assert found.findings[0].fix == {"train.learning_rate": 0.001}
