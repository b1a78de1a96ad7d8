#!/usr/bin/env bash
# Traces in, verified adapter out: environment, settings, clock, pipeline, publication.
#
#   ./train.sh                                    what params.yaml says; as shipped, the demonstration
#   BASE=/models/x DATA=/data/t.jsonl ./train.sh  other inputs (and PANEL=), written into params.yaml
#   PYTHON=/opt/env/bin/python ./train.sh         this interpreter; nothing is installed
#   ./train.sh evaluate                           only up to this stage
#
# Works from any folder, with or without git, with or without a network. Ctrl-C or a
# TERM saves the training state, publishes what there is and ends; the next run resumes.
set -euo pipefail
started=$(date +%s) caller=$PWD
[[ ${PYTHON-} != */* || $PYTHON == /* ]] || PYTHON=$caller/$PYTHON
if [[ -n ${PYTHON-} && $("$PYTHON" -c 'print(6 * 7)' 2>/dev/null) != 42 ]]; then
  echo "train.sh: PYTHON=$PYTHON is not a Python interpreter; give the path of one, or leave it out." >&2
  exit 2
fi
cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")"

# One at a time. DVC's stages do not inherit this lock; each holds runs/stage.lock itself.
mkdir -p runs
exec 9>>runs/train.lock
if ! flock --nonblock 9; then
  echo "train.sh: another run is at work in $PWD: process $(cat runs/train.pid), or what it started. Wait or end it." >&2
  exit 2
fi
echo $$ >runs/train.pid

# Environment: PYTHON, or .venv, made if need be. No hub, no telemetry from here on.
bin=$("${PYTHON:-${PYTHON3:-python3}}" requirements/environment.py)
export PATH="$bin:$PATH" SHELL=$BASH PYTHONUNBUFFERED=1 DVC_NO_ANALYTICS=1
export HF_HUB_OFFLINE=1 HF_DATASETS_OFFLINE=1 TRANSFORMERS_OFFLINE=1 HF_HUB_DISABLE_TELEMETRY=1 DO_NOT_TRACK=1

# Settings: BASE, DATA and PANEL go into params.yaml; a known job's inputs bring its preset.
python -m pipeline.configure --auto --caller "$caller" \
  --base "${BASE:-}" --data "${DATA:-}" --panel "${PANEL:-}"

# DVC wants to be told when there is no git, and that killed runs are over.
[ -d .dvc ] || python -m dvc init --quiet --no-scm
no_scm=true; [ -e .git ] && no_scm=false
python -m dvc config --quiet --local core.no_scm "$no_scm"
python -m pipeline.unlock

# Clock: used time of earlier, unfinished runs counts.
TRACEBOX_DEADLINE_UNIX=$(python -m pipeline.clock --started "$started")
export TRACEBOX_DEADLINE_UNIX

# Pipeline. DVC leaves its stage behind when it is asked to stop, so the stage is asked.
# Everything stays in one process group: whoever kills that leaves nothing running.
status=1
if ((TRACEBOX_DEADLINE_UNIX > $(date +%s))); then
  python -m dvc repro "$@" </dev/null &
  pipeline=$!
  asked=0
  stop() {
    asked=$((asked + 1))
    echo "train.sh: asked to stop; saving and publishing (once more: end at once)" >&2
    read -ra stage < <(cat "/proc/$pipeline/task/"*/children 2>/dev/null | tr '\n' ' ') || true
    kill -"$( ((asked == 1)) && echo TERM || echo KILL)" "${stage[@]:-$pipeline}" 2>/dev/null || true
  }
  trap stop INT TERM HUP
  while :; do
    status=0; wait "$pipeline" || status=$?
    kill -0 "$pipeline" 2>/dev/null || break
  done
  # A stage that is still saving must not be overtaken, even when a signal ended DVC first.
  if ((asked > 0 || (status > 128 && status < 160))); then
    flock --timeout 900 runs/stage.lock true || true
  fi
fi

# Publication, whatever happened: adapter/ and run_summary.json always say what is true.
trap '' INT TERM HUP
if ((status != 0)); then
  python -m pipeline.publish --unfinished || true
  python -m pipeline.report --partial || true
  echo "train.sh: stopped before the end (status $status); the reason stands above. Run it again to go on from there" >&2
  exit "$status"
fi
[ $# -gt 0 ] || python -m pipeline.publish
