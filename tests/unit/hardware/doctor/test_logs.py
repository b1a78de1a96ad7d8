"""Lost memory in all wordings, what follows from what, and what is no fault."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.hardware.doctor.diagnosis import Diagnosis, diagnose
from pipeline.hardware.doctor.files import read_log
from pipeline.hardware.doctor.names import keep_settings
from pipeline.hardware.doctor.oom import memory_figures
from pipeline.hardware.doctor.record import Line, Record

OLD = (
    "RuntimeError: CUDA out of memory. Tried to allocate 768.00 MiB (GPU 1; 23.50 GiB total "
    "capacity; 20.25 GiB already allocated; 310.00 MiB free; 20.75 GiB reserved in total by "
    "PyTorch)"
)
NEW = (
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 18.50 GiB. GPU 0 has a "
    "total capacity of 79.00 GiB of which 9.25 GiB is free. Of the allocated memory 66.00 GiB is "
    "allocated by PyTorch, and 1.50 GiB is reserved by PyTorch but unallocated."
)


def told(text: str, **settings: Any) -> Diagnosis:
    record = Record()
    keep_settings(record, "config.yaml", ["settings"], settings)
    read_log(record, "train.log", text)
    return diagnose(record)


def in_frame(code: str, error: str = NEW) -> str:
    return f'Traceback (most recent call last):\n  File "a.py", line 3, in f\n    {code}\n{error}'


def test_the_sizes_of_the_old_wording() -> None:
    expected = {"asked_gib": 0.75, "capacity_gib": 23.5, "free_gib": 310 / 1024,
                "allocated_gib": 20.25, "reserved_gib": 20.75, "idle_gib": 0.5}  # fmt: skip
    assert memory_figures(OLD) == pytest.approx(expected)


def test_the_sizes_of_the_new_wording() -> None:
    expected = {"asked_gib": 18.5, "capacity_gib": 79.0, "free_gib": 9.25,
                "allocated_gib": 66.0, "idle_gib": 1.5}  # fmt: skip
    assert memory_figures(NEW) == pytest.approx(expected)


def test_sizes_are_among_the_figures() -> None:
    assert told(NEW).figures["asked_gib"].value == 18.5


@pytest.mark.parametrize(
    ("code", "frame"),
    [
        ("oom_optimizer", "optimizer.step()"),
        ("oom_evaluation", "ids = model.generate(**prompt)"),
        ("oom_logits", "logits = self.lm_head(hidden)"),
        ("oom_step", "accelerator.backward(loss); self.loss.backward()"),
        ("oom_load", "model = AutoModelForCausalLM.from_pretrained(name)"),
        ("oom", "do_something_else()"),
    ],
)
def test_where_the_memory_ran_out(code: str, frame: str) -> None:
    found = told(in_frame(frame))
    assert found.codes == [code]
    assert found.findings[0].fix == ({"optimizer": "adamw_8bit"} if code == "oom_optimizer" else {})


def test_the_traceback_of_an_earlier_error_is_not_looked_at() -> None:
    text = in_frame("optimizer.step()", "ValueError: no") + "\n" + in_frame("loss.backward()")
    assert told(text).codes == ["oom_step"]


def test_without_a_traceback_the_place_is_unknown() -> None:
    assert told("step 3 loss 2.1\noptimizer.step()\n" + OLD).codes == ["oom"]


LADDER = [
    ({"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2},
     {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4}),
    ({"per_device_train_batch_size": 3, "gradient_accumulation_steps": 2},
     {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 6}),
    ({"per_device_train_batch_size": 1, "gradient_checkpointing": False},
     {"gradient_checkpointing": True}),
    ({"per_device_train_batch_size": 1, "gradient_checkpointing": True, "cutoff_len": 8192},
     {"cutoff_len": 4096}),
    ({"cutoff_len": 8192}, {}),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "fix"), LADDER)
def test_a_step_that_is_too_large_keeps_its_effective_batch(
    settings: dict[str, Any], fix: dict[str, Any]
) -> None:
    assert told(in_frame("loss.backward()"), **settings).findings[0].fix == fix


def test_an_optimizer_of_8_bits_is_not_asked_for_twice() -> None:
    assert told(in_frame("optimizer.step()"), optim="adamw_bnb_8bit").findings[0].fix == {}


def test_other_processes_on_the_device() -> None:
    others = "Process 7 has 60.00 GiB memory in use. Process 8 has 10.00 GiB memory in use. "
    assert told(NEW.replace("Of the allocated", others + "Of the allocated")).codes == [
        "device_shared"
    ]


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("host_memory", "RuntimeError: [enforce fail at alloc_cpu.cpp:1] DefaultCPUAllocator: no"),
        ("host_memory", "Out of memory: Killed process 71 (python)"),
        ("host_memory", "OSError: [Errno 12] Cannot allocate memory"),
        ("port_in_use", "RuntimeError: The server socket has failed: Address already in use"),
        ("package_missing", "ModuleNotFoundError: No module named 'flash_attn'"),
        ("shapes_differ", "size mismatch for lm_head.weight: copying a param"),
        ("permission", "PermissionError: [Errno 13] Permission denied: '/x'"),
        ("loss_scale_collapsed", "FloatingPointError: Minimum loss scale reached (0.0001)."),
        ("collective_timeout", "RuntimeError: NCCL communicator was aborted, operation timed out"),
    ],
)
def test_other_wordings(code: str, text: str) -> None:
    found = told(text)
    assert (found.verdict, found.codes) == ("fault", [code])


def test_what_follows_from_another_fault_is_left_out() -> None:
    timeout = "\nWatchdog caught collective operation timeout: WorkNCCL(SeqNum=2)"
    assert told("OSError: No space left on device" + timeout).codes == ["disk_full"]
    assert told(in_frame("loss.backward()") + timeout).codes == ["oom_step"]


def test_each_waiting_rank_is_shown_once() -> None:
    lines = [f"[Rank {n}] collective operation timeout: WorkNCCL timed out" for n in (0, 3, 3, 5)]
    assert [line.number for line in told("\n".join(lines)).findings[0].evidence] == [1, 2, 4]


def test_a_stop_by_a_signal_is_no_fault() -> None:
    found = told("train: stopped by SIGTERM; step 40 is saved")
    assert (found.verdict, found.codes) == ("unknown", ["interrupted"])


def test_long_lines_are_cut() -> None:
    shown = str(Line("a.log", 3, "x" * 900))
    assert shown.startswith("a.log:3: xxx")
    assert len(shown) < 220
    assert shown.endswith("…")


def test_settings_that_are_no_numbers() -> None:
    record = Record()
    keep_settings(
        record, "c", ["x"], {"learning_rate": "auto", "packing": True, "rope_theta": None}
    )
    assert (record.number("learning_rate"), record.number("packing")) == (None, None)
    assert "rope_theta" not in record.settings
