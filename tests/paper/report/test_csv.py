"""Tables as CSV: all numbers, also of what has no runs."""

from adaste.paper.index import Collection
from adaste.paper.report.texts import all_csv
from support.report_texts import annealed, entries


def test_csv_has_all_numbers_and_digests_of_every_length() -> None:
    runs = [*annealed(94.16, 94.21, 94.26), *annealed(90.0, epochs=2)]
    found = [entry for entry in entries(all_csv(Collection(tuple(runs), ()))) if entry["runs"] not in ("", "0")]
    assert [entry["epochs"] for entry in found] == ["3", "2"]
    assert found[0] == {
        "table": "table1",
        "row": "AdaSTE, annealed",
        "mark": "*",
        "method": "adaste-annealed",
        "place": "cifar10-resnet18",
        "family": "released",
        "epochs": "3",
        "runs": "3",
        "last_mean": "94.21",
        "last_spread": "0.05",
        "best_mean": "94.3",
        "best_spread": "0",
        "paper": "94.11",
        "paper_spread": "0.08",
        "last_minus_paper": "0.1",
        "best_minus_paper": "0.19",
        "seconds": "60",
        "hardware": "NVIDIA H200",
        "seeds": "0 1 2",
        "last_of_each": "94.16 94.21 94.26",
        "best_of_each": "94.3 94.3 94.3",
        "digests": " ".join(run.digest for run in runs[:3]),
    }


def test_csv_says_where_runs_are_missing_and_is_silent_where_there_is_no_recipe() -> None:
    lines = [line for line in entries(all_csv(Collection((), (), paper=True))) if line["table"] == "table1"]
    assert {line["runs"] for line in lines} == {"0"} and {line["epochs"] for line in lines} == {""}
    keys = [tuple(line[name] for name in ("table", "row", "mark", "place", "family", "epochs")) for line in lines]
    assert len(set(keys)) == len(keys)
    assert not [line for line in lines if line["family"] == "paper" and line["method"] == "pmf"]
    assert len([line for line in lines if line["method"] == "pmf"]) == 10  # of `released` and `ours`, at five setups
