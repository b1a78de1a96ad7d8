"""Stage decontaminate on twenty rows, some of them copies, edits and paraphrases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline import decontaminate
from pipeline.base.artifacts import read_json, read_jsonl, sha256_file, write_json, write_jsonl
from pipeline.base.errors import UserError
from pipeline.base.params import Params
from pipeline.base.records import Dropped, Problem, Trace, problem_id, read_rows, write_rows
from tests.support.settings import make_params
from tests.support.traces import make_trace

OUT = Path("work/decontaminate")
STORY = (
    "A ferry leaves the harbour with 90 people on board, and at every one of 4 stops a "
    "third of them leave while 12 others come aboard. How many arrive?"
)
EDITED = STORY.replace("90", "135").replace("12", "7")
REWORDED = "With 90 people a boat sails; 4 times one in three goes and 12 more join. Who is left?"


def sums(count: int) -> list[str]:
    return [f"What is {number} + {number}?" for number in range(1, count + 1)]


def settings(**given: Any) -> Params:
    return make_params(**{"executor.workers": 1, **given})


def prepare(
    problems: list[str],
    panel: list[str],
    protected: dict[str, list[Any]],
    near: list[tuple[str, str, str, float]] = [],  # noqa: B006
) -> None:
    rows = (
        make_trace(problem, "1", source="t", origin=f"t:{number}")
        for number, problem in enumerate(problems, start=1)
    )
    write_rows(Path("work/filter/kept.jsonl"), rows)
    asked = (
        Problem(problem_id(one), one, "1", "p.jsonl", f"p.jsonl:{number}")
        for number, one in enumerate(panel, start=1)
    )
    write_rows(Path("work/filter/panel.jsonl"), asked)
    entries = []
    for name, lines in protected.items():
        path = Path(name)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        entries.append({"path": name, "bytes": 0, "sha256": sha256_file(path)})
    write_json(Path("work/prepare/protected.json"), entries)
    neighbours = (
        {"id": problem_id(one), "set": name, "protected": problem_id(other), "cosine": cosine}
        for one, name, other, cosine in near
    )
    write_jsonl(Path("work/semantic/neighbours.jsonl"), neighbours)


@pytest.fixture(autouse=True)
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_copies_and_edits_go_and_every_pair_is_listed() -> None:
    problems = [*sums(16), STORY.replace("A ferry", "A boat"), "WHAT IS 40+2 ?", EDITED, "Why?"]
    sets: dict[str, list[Any]] = {
        "a.jsonl": [{"question": STORY}, [1]],
        "b.jsonl": [{"problem": STORY, "answer": 2}] * 2,
    }
    prepare(problems, ["What is 40 + 2?", "What is 3 + 3?"], sets)
    decontaminate.main(settings())
    report = read_json(OUT / "report.json")
    assert (report["read"], report["kept"], report["problems"]) == (20, 16, 20)
    assert report["dropped"] == {"overlap-copy": 3, "overlap-edited": 1}
    assert report["classes"] == {"copy": 3, "edited": 1, "paraphrase": 0, "review": 0}
    shown = ("name", "problems", "repeated", "unreadable", "hits", "state")
    assert [[one[key] for key in shown] for one in report["sets"]] == [
        ["panel", 2, 0, 0, 2, "own"],
        ["a.jsonl", 1, 0, 1, 2, "own"],
        ["b.jsonl", 1, 1, 0, 2, "own"],
    ]
    assert report["sets"][1]["sweep"]["masked"]["0.9"] == 2
    dropped = {row.origin: row for row in read_rows(Dropped, OUT / "dropped.jsonl")}
    assert dropped.keys() == {"t:3", "t:17", "t:18", "t:19"}
    assert dropped["t:17"].detail.startswith("a.jsonl a.jsonl:1 (also in b.jsonl): ngram, lcs; ")
    assert dropped["t:18"].detail == "panel p.jsonl:1: exact; What is 40 + 2?"
    assert len(list(read_rows(Trace, OUT / "kept.jsonl"))) == 16
    pairs = list(read_jsonl(OUT / "review.jsonl"))
    assert [(one["class"], one["set"]) for one in pairs if one["training"] == EDITED] == [
        ("edited", "a.jsonl"),
        ("edited", "b.jsonl"),
    ]
    said = (OUT / "report.md").read_text()
    assert f"> protected: {STORY}" in said
    assert "| edited | the same wording with other numbers, names or formulas | 1 | drop |" in said


def test_the_policy_decides_and_what_is_kept_is_listed() -> None:
    prepare([*sums(5), EDITED], [STORY], {})
    policy = {"copy": "drop", "edited": "keep", "paraphrase": "drop", "review": "keep"}
    decontaminate.main(settings(**{"decontaminate.policy": policy}))
    assert read_json(OUT / "report.json")["kept"] == 6
    (pair,) = read_jsonl(OUT / "review.jsonl")
    assert (pair["class"], pair["action"], pair["place"]) == ("edited", "keep", "p.jsonl:1")
    assert pair["scores"]["masked"] == 1.0


def test_neighbours_by_embedding_are_paraphrases_or_for_review() -> None:
    far = "Ninety sailors travel. At 4 islands a third leave and 12 come. How many arrive?"
    near = [
        (REWORDED, "panel", STORY, 0.93),
        (far, "panel", STORY, 0.8),
        ("Hm?", "panel", STORY, 0.6),
    ]
    prepare([*sums(5), REWORDED, far, "Hm?"], [STORY], {}, near)
    decontaminate.main(settings())
    classes = [(one["class"], one["methods"]) for one in read_jsonl(OUT / "review.jsonl")]
    assert sorted(classes) == [("paraphrase", ["cosine"]), ("review", ["cosine"])]
    assert read_json(OUT / "report.json")["dropped"] == {"overlap-paraphrase": 1}


def test_neighbours_of_other_sets_are_refused() -> None:
    prepare(sums(3), [STORY], {}, [("What is 1 + 1?", "old", STORY, 0.99)])
    with pytest.raises(UserError, match=r"neighbours\.jsonl:1: old has no problem"):
        decontaminate.main(settings())


def test_ngram_length_is_a_setting() -> None:
    part = f"Yesterday {' '.join(STORY.split()[4:14])} were sick, which surprised nobody at all."
    prepare([*sums(5), part], [STORY], {})
    decontaminate.main(settings())
    assert list(read_jsonl(OUT / "review.jsonl")) == []
    decontaminate.main(settings(**{"decontaminate.ngram_words": 8}))
    assert [one["methods"] for one in read_jsonl(OUT / "review.jsonl")] == [["ngram"]]


def test_boilerplate_and_genres_are_listed_and_excused() -> None:
    tail = "find the smallest possible weight of the parcel that lies on the last wooden shelf"
    problems = [f"Card{number} shows {number}; {tail}" for number in range(20)]
    prepare([*problems, *sums(15)], [f"Thirty birds fly there; {tail}", "What is 91 + 2?"], {})
    decontaminate.main(settings())
    report = read_json(OUT / "report.json")
    assert report["kept"] == 35
    assert report["boilerplate"][0]["problems"] == 20
    assert report["excused"] == 20


@pytest.mark.parametrize("workers", [1, 2])
def test_bytes_do_not_depend_on_workers_or_shards(workers: int) -> None:
    prepare([*sums(8), EDITED, STORY, *sums(9), STORY, EDITED], [STORY], {})
    decontaminate.main(settings())
    once = {path.name: path.read_bytes() for path in OUT.iterdir()}
    decontaminate.main(settings(**{"executor.workers": workers, "executor.shard_mib": 0.001}))
    assert {path.name: path.read_bytes() for path in OUT.iterdir()} == once


def test_nothing_left_says_what_to_check() -> None:
    prepare(sums(3), sums(3), {})
    with pytest.raises(UserError, match=r"none of 3 rows is left \(overlap-copy 3"):
        decontaminate.main(settings())


def test_a_changed_or_empty_protected_file_is_refused() -> None:
    prepare(sums(3), sums(1), {"a.jsonl": [{"text": "no problem here"}]})
    with pytest.raises(UserError, match=r"a\.jsonl: none of 1 rows is a problem"):
        decontaminate.main(settings())
    Path("a.jsonl").write_text("{}")
    with pytest.raises(UserError, match="changed since"):
        decontaminate.main(settings())
