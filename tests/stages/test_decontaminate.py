"""Stage decontaminate on twenty rows, some of them copies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline import decontaminate
from pipeline.base.artifacts import read_json, sha256_file, write_json
from pipeline.base.errors import UserError
from pipeline.base.records import Dropped, Problem, Trace, problem_id, read_rows, write_rows
from tests.support.settings import make_params
from tests.support.traces import make_trace

OUT = Path("work/decontaminate")
STORY = (
    "A ferry leaves the harbour with ninety people on board, and at every one of four stops a "
    "third of them leave while twelve others come aboard. How many arrive?"
)


def trace(number: int, problem: str) -> Trace:
    return make_trace(problem, "1", source="t", origin=f"t:{number}")


def sums(count: int) -> list[str]:
    return [f"What is {number} + {number}?" for number in range(1, count + 1)]


def prepare(problems: list[str], panel: list[str], protected: dict[str, list[Any]]) -> None:
    rows = (trace(number, problem) for number, problem in enumerate(problems, start=1))
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
    write_json(Path("work/prepare/data.json"), {"sources": [], "protected": entries})


@pytest.fixture(autouse=True)
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_copies_of_panel_and_protected_problems_go() -> None:
    problems = [*sums(17), STORY.replace("A ferry", "A boat"), "WHAT IS 40+2 ?", "What is 7 - 7?"]
    sets = {"a.jsonl": [{"question": STORY}, [1]], "b.jsonl": [{"problem": STORY, "answer": 2}]}
    prepare(problems, ["What is 40 + 2?", "What is 3 + 3?"], sets)
    decontaminate.main(make_params())
    report = read_json(OUT / "report.json")
    assert (report["read"], report["kept"]) == (20, 17)
    assert report["dropped"] == {"overlap-exact": 2, "overlap-ngram": 1}
    assert report["sets"] == [
        {"name": "panel", "problems": 2, "unreadable": 0, "hits": 2},
        {"name": "a.jsonl", "problems": 1, "unreadable": 1, "hits": 1},
        {"name": "b.jsonl", "problems": 1, "unreadable": 0, "hits": 1},
    ]
    dropped = {row.origin: row for row in read_rows(Dropped, OUT / "dropped.jsonl")}
    assert dropped.keys() == {"t:3", "t:18", "t:19"}
    assert dropped["t:18"].detail.startswith("a.jsonl a.jsonl:1 (also in b.jsonl): ")
    assert dropped["t:19"].detail == "panel p.jsonl:1: what is 40 + 2"
    assert len(list(read_rows(Trace, OUT / "kept.jsonl"))) == 17


def test_ngram_length_is_a_setting() -> None:
    prepare([*sums(5), f"A boat {' '.join(STORY.split()[2:12])}."], [STORY], {})
    decontaminate.main(make_params())
    assert read_json(OUT / "report.json")["kept"] == 6
    decontaminate.main(make_params(**{"decontaminate.ngram_words": 8}))
    assert read_json(OUT / "report.json")["dropped"] == {"overlap-ngram": 1}


def test_boilerplate_is_listed_and_excused() -> None:
    tail = "find the smallest possible value of the number that is written on the last card"
    problems = [f"Card{number} shows {number}; {tail}" for number in range(20)]
    prepare(problems, [f"Thirty cards lie there; {tail}"], {})
    decontaminate.main(make_params())
    report = read_json(OUT / "report.json")
    assert report["kept"] == 20
    assert report["boilerplate"][0]["problems"] == 20


def test_nothing_left_says_what_to_check() -> None:
    prepare(sums(3), sums(3), {})
    with pytest.raises(UserError, match=r"none of 3 rows is left .*decontaminate\.protected"):
        decontaminate.main(make_params())


def test_a_changed_or_empty_protected_file_is_refused() -> None:
    prepare(sums(3), sums(1), {"a.jsonl": [{"text": "no problem here"}]})
    with pytest.raises(UserError, match=r"a\.jsonl: none of 1 rows is a problem"):
        decontaminate.main(make_params())
    Path("a.jsonl").write_text("{}")
    with pytest.raises(UserError, match="changed since"):
        decontaminate.main(make_params())
