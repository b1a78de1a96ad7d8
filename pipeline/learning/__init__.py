"""The training process and its supervisor: loop, schedule, checkpoints, resume."""
