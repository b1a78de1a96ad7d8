"""Tracebox: reasoning traces and a frozen base in, a verified LoRA adapter out.

The map. Each stage is `python -m pipeline.<stage>`; dvc.yaml runs them in this order
and hands their files from one to the next. Folders are under work/.

stage          reads                                   writes
-------------  --------------------------------------  -------------------------------------
prepare        the base's folder, the data's files     prepare/{base,data}.json
probe          the machine                             probe/machine.json
filter         prepare/, the data's files              filter/{kept,dropped,panel}.jsonl,
                                                       filter/funnel.json
decontaminate  filter/{kept,panel}.jsonl, protected    decontaminate/{kept,dropped}.jsonl,
               files                                   decontaminate/report.json
plan           prepare/base.json, probe/,              plan/{plan,corpus,evaluation}.json
               decontaminate/report.json
select         decontaminate/kept.jsonl,               select/traces.jsonl,
               plan/corpus.json                        select/report.json
tokenize       select/traces.jsonl, plan/corpus.json,  tokenize/*.npy,
               the base's tokenizer                    tokenize/{documents.jsonl,manifest.json}
baseline       filter/panel.jsonl, the base,           baseline/{samples.jsonl,scores.json}
               plan/evaluation.json
train          tokenize/, plan/plan.json, the base     train/adapter/, train/train.json,
                                                       train/steps.csv (state: runs/<key>/)
evaluate       as baseline, train/adapter/             evaluate/{samples.jsonl,scores.json}
export         train/adapter/, train/train.json        export/adapter/, export/export.json
verify         export/adapter/, the base               verify/contract.json
report         the JSON files of all stages            report/loss.svg, results.md,
                                                       adapter_card.md

Not stages: configure (params.yaml), clock (runs/clock.json) and publish (adapter/,
run_summary.json), which train.sh runs around them; gym (tasks about broken runs), by hand.

Rooms (folders) talk through these files, never through imports: a room imports
`base` alone, a stage imports rooms and `base`, `base` imports nothing else.
"""
