"""The numbers of docs/reproducing.md on the other methods are those of results/."""

import json
import re
from statistics import fmean
from typing import Any

from adaste.paper.collection import Collection
from adaste.paper.report.cell_format import summary
from adaste.paper.tables import TABLES
from support.pages import ROOT
from support.runs_in_words import Found, Reached, accuracy, below, best, ends, flipped, published_of


def statistics_of(machine: str) -> dict[str, Any]:
    """What benchmarks say of BatchNorm's statistics, by the names of runs."""
    record = json.loads((ROOT / "results" / "benchmarks" / f"norm-statistics-{machine}.json").read_text())
    return {row["run"]: row for row in record["rows"]}


def test_what_binaryconnect_reaches_under_the_common_recipe(account: str, found: Found, reached: Reached) -> None:
    ten, hundred = (found(f"ours-{data}-resnet18-binaryconnect") for data in ("cifar10", "cifar100"))
    vgg = [found(f"ours-{data}-vgg16-binaryconnect") for data in ("cifar10", "cifar100")]
    both = ends(*vgg)
    assert f"{both} % with VGG-16, in 60 epochs" in account
    assert f"the same method reaches {both} %" in account
    assert f"{accuracy(ten, 60)} % on CIFAR-10 and {accuracy(hundred, 60)} % on CIFAR-100" in account
    behind = " and ".join(
        f"{reached(f'ours-cifar100-{network}-adaste').mean - run.result.last_accuracy:.2f}"
        for network, run in (("resnet18", hundred), ("vgg16", vgg[1]))
    )
    rerun, quoted = (
        " and ".join(
            f"{published_of('adaste')[place].accuracy - row.published[place].accuracy:.2f}"
            for place in ("cifar100-resnet18", "cifar100-vgg16")
        )
        for mark in "*†"
        for row in TABLES["table1"].rows
        if (row.method, row.mark) == ("binaryconnect", mark)
    )
    assert f"The paper has it and AdaSTE {rerun} points apart on CIFAR-100 on ResNet-18 and VGG-16" in account
    assert f"({quoted} by those it quotes); here it is {behind}." in account


def test_how_binaryconnect_flips_on_vgg(account: str, found: Found) -> None:
    runs = [found(f"released-{data}-vgg16-binaryconnect") for data in ("cifar10", "cifar100")]
    before = [record for run in runs for record in run.records if record.lr == run.records[0].lr]
    share = [100 * record.flipped for record in before]
    assert f"flips {min(share):.0f} to {max(share):.0f} % of all weights per epoch before the first drop" in account


def test_the_unstable_mirror_descent(account: str, found: Found, reached: Reached) -> None:
    free, vgg = (
        found("released-cifar10-resnet18-md-tanh", mended=True, digest="30"),
        found("released-cifar10-vgg16-md-tanh", mended=True, digest="b"),
    )
    assert (
        f"Without either, 60 epochs on CIFAR-10 ended at {accuracy(free, 60)} % (ResNet-18; {best(free)} in" in account
    )
    assert f"and {accuracy(vgg, 60)} % (VGG-16)" in account
    absorbing = (
        found("released-cifar10-resnet18-md-tanh", mended=True, digest="91"),
        found("released-cifar100-resnet18-md-tanh", mended=True),
    )
    single = [found(f"released-{data}-resnet18-md-tanh") for data in ("cifar10", "cifar100")]
    at = [accuracy(run, 60) for run in absorbing]
    assert f"alone ResNet-18 ended at {at[0]} % on CIFAR-10 and {at[1]} % on CIFAR-100, with both" in account
    assert f"it ends at {accuracy(single[0], 60)} and {accuracy(single[1], 60)} %" in account
    before_the_drop = [100 * record.flipped for record in single[0].records[:54]]
    assert single[0].records[53].lr > single[0].records[54].lr == single[0].records[59].lr
    assert f"{min(before_the_drop):.0f} to {max(before_the_drop):.0f} % of ResNet-18's flip in an epoch" in account
    stable = found("released-cifar10-resnet18-md-tanh-s")
    late, unstable_late = ([100 * record.flipped for record in run.records[36:54]] for run in (stable, single[0]))
    assert f"{min(late):.1f} to {max(late):.1f} % in the epochs 37 to 54" in account
    assert f"the unstable one flips {min(unstable_late):.0f} to {max(unstable_late):.0f} %" in account
    common = [reached(f"ours-{data}-resnet18-md-tanh") for data in ("cifar10", "cifar100")]
    on = [summary(one) for one in common]
    published = published_of("md-tanh")
    above = [
        f"{one.mean - published[f'{data}-resnet18'].accuracy:.2f}"
        for data, one in zip(("cifar10", "cifar100"), common, strict=True)
    ]
    assert (
        f"reaches {on[0]} % on CIFAR-10 and {on[1]} % on CIFAR-100 (three seeds), {above[0]} and {above[1]} points "
        "above its published numbers"
    ) in account
    on_vgg = " and ".join(summary(reached(f"ours-{data}-vgg16-md-tanh")) for data in ("cifar10", "cifar100"))
    assert f"VGG-16 reaches {on_vgg} %" in account


def test_the_unstable_mirror_descent_with_two_levels(account: str, found: Found) -> None:
    common, tanh = (found(f"ours-cifar10-resnet18-{method}") for method in ("md-softmax", "md-tanh"))
    assert f"MD-softmax and MD-tanh, reach the same, too: {ends(common, tanh)} % on CIFAR-10" in account
    scripted, vgg = (found(f"released-cifar10-{network}-md-softmax") for network in ("resnet18", "vgg16"))
    assert f"it ends at {accuracy(scripted, 60)} % (ResNet-18) and {accuracy(vgg, 60)} % (VGG-16, whose rate" in account
    assert round(vgg.records[0].lr / scripted.records[0].lr) == 10 and "script has ten times as large" in account
    fits = [scripted.records[epoch - 1].train_accuracy for epoch in (22, 52)]
    assert f"is at {fits[0]:.1f} % in epoch 22 and at {fits[1]:.1f} % in epoch 52" in account
    assert f"Under the common recipe it reaches {accuracy(common, 60)} %" in account
    long = found("released-cifar10-vgg16-md-softmax", 285)
    assert f"285 epochs, VGG-16 ends at {accuracy(long, 285)} % (published: 90.47)" in account
    fits = [long.records[epoch - 1].train_accuracy for epoch in (134, 135, 285)]
    assert f"from {fits[0]:.1f} % in epoch 134 to {fits[1]:.1f} % in epoch 135" in account
    assert f"but ends at {fits[2]:.1f} %" in account


def test_where_latents_of_two_levels_start(account: str, found: Found) -> None:
    vgg = "released-cifar100-vgg16"
    ends = " and ".join(accuracy(found(f"{vgg}-{method}"), 60) for method in ("pmf-md-bnn", "md-softmax-s"))
    farther = " and ".join(accuracy(found(f"{vgg}-{method}", mended=True), 60) for method in ("pmf", "md-softmax-s"))
    assert f"they end at {ends} %; in our first runs, whose latents started about twice as far" in account
    assert f"it was {farther} %. In the other three settings the two starts end less than a point apart" in account
    for place in ("cifar10-vgg16", "cifar10-resnet18", "cifar100-resnet18"):
        for now, before in (("pmf-md-bnn", "pmf"), ("md-softmax-s", "md-softmax-s")):
            mended = found(f"released-{place}-{before}", mended=True)
            assert abs(float(below(found(f"released-{place}-{now}"), mended))) < 1


def test_every_method_comes_close_to_its_published_number(account: str, committed: Collection) -> None:
    assert "**No method ends more than two points below its published number**" in account
    published: dict[str, float] = {}
    for row in TABLES["table1"].rows:
        if not row.published:
            continue
        number = row.published["cifar10-resnet18"].accuracy
        published[row.method] = max(number, published.get(row.method, 0))
    scripts, common = (
        {
            address.method
            for run in committed.runs
            for address in run.addresses
            if (address.family, address.place, run.recipe.epochs) == (family, "cifar10-resnet18", 60)
            and run.result.last_accuracy > published.get(address.method, 100) - 2
        }
        for family in ("released", "ours")
    )
    nearest = {
        method: min(
            (
                run.result.last_accuracy - published[method]
                for run in committed.runs
                for address in run.addresses
                if (address.method, address.place, run.recipe.epochs) == (method, "cifar10-resnet18", 60)
                and address.family in ("released", "ours")
            ),
            key=abs,
        )
        for method in published
    }
    assert {method for method, apart in nearest.items() if abs(apart) > 2} == {"md-softmax"}
    assert f"MD-softmax ends {nearest['md-softmax']:.2f} points above, the others within two" in account
    assert scripts | common == set(published)
    assert scripts - common == {"proxquant"}
    assert common - scripts == {"full-precision", "pmf", "md-softmax", "md-tanh", "md-softmax-s", "md-tanh-s"}


def test_two_names_of_one_mirror_descent(account: str, found: Found) -> None:
    places = ("cifar10-resnet18", "cifar100-resnet18", "cifar10-vgg16", "cifar100-vgg16")
    leads = [float(below(found(f"ours-{place}-md-softmax-s"), found(f"ours-{place}-md-tanh-s"))) for place in places]
    assert (
        f"with ResNet-18 MD-tanh-s is {leads[0]:.2f} points ahead on CIFAR-10 and {-leads[1]:.2f} behind on CIFAR-100, "
        f"with VGG-16 {-leads[2]:.2f} and {-leads[3]:.2f} behind"
    ) in account
    less = max(
        row.published[place].accuracy - found(f"released-{place}-{row.method}").result.last_accuracy
        for row in TABLES["table1"].rows
        if row.mark == "*" and row.method in ("md-tanh-s", "md-softmax-s")
        for place in ("cifar10-resnet18", "cifar100-resnet18")
    )
    assert f"on ResNet-18 those of family `released` are at most {less:.2f} points below the reruns" in account


def test_the_slow_start_of_the_stable_mirror_descent(account: str, found: Found) -> None:
    scripted, common = found("released-cifar10-resnet18-md-tanh-s"), found("ours-cifar10-resnet18-md-tanh-s")
    early, middle, late = (accuracy(scripted, epoch) for epoch in (15, 24, 30))
    assert f"{early} % after epoch 15 of 60, {middle} after 24, {late} after 30" in account
    assert f"training accuracy is {scripted.records[14].train_accuracy:.1f} % after epoch 15" in account
    assert f"MD-tanh-s is at {accuracy(common, 15)} % after epoch 15" in account


def test_where_proxquant_is_below_its_published_numbers(account: str, found: Found) -> None:
    places = ("cifar10-resnet18", "cifar100-resnet18", "cifar10-vgg16", "cifar100-vgg16")
    common, scripted = ([found(f"{family}-{place}-proxquant") for place in places] for family in ("ours", "released"))
    on, by_scripts = ([accuracy(run, 60) for run in runs] for runs in (common, scripted))
    assert (
        f"On CIFAR-10 its scripts do better ({by_scripts[0]} against {on[0]} %, with VGG-16 {by_scripts[2]} against "
        f"{on[2]}), on CIFAR-100 the common recipe does ({on[1]} against {by_scripts[1]} %, with VGG-16 {on[3]} "
        f"against {by_scripts[3]})"
    ) in account
    published = published_of("proxquant")
    less = [published[place].accuracy - run.result.last_accuracy for place, run in zip(places, common, strict=True)]
    assert f"Under the common recipe it is {min(less):.1f} to {max(less):.1f} points below" in account
    fitted = [f"{run.records[-1].train_accuracy:.2f}" for run in common]
    assert f"does not fit the training images either ({fitted[0]} and {fitted[1]} %" in account
    adaste = found("ours-cifar10-resnet18-adaste")
    assert f"{flipped(common[0], 15, 2)} % of them flip in epoch 15, with AdaSTE {flipped(adaste, 15)} %" in account
    falling = found("ours-cifar10-resnet18-proxquant", mended=True)
    constant = statistics_of("h200")[common[0].folder.name]["plain"]["test_accuracy"]
    assert f"did worse ({accuracy(falling, 60)} against {constant:.2f} % on CIFAR-10, both with the stat" in account


def test_what_statistics_of_batchnorm_did(account: str, found: Found) -> None:
    rows = statistics_of("h200")
    for name, row in rows.items():
        run = found(name.rpartition("-")[0])
        assert (run.folder.name, run.result.last_accuracy) == (name, row["augmented"]["test_accuracy"])
    rises = {
        data: [
            row["augmented"]["test_accuracy"] - row["plain"]["test_accuracy"]
            for name, row in rows.items()
            if f"-{data}-" in name
        ]
        for data in ("cifar10", "cifar100")
    }
    assert f"{sum(map(len, rises.values()))} runs of BayesBiNN, PMF, mirror descent and ProxQuant were" in account
    ten, hundred = (f"{min(rise):.2f} to {max(rise):.2f}" for rise in rises.values())
    assert f"they end {ten} points higher on CIFAR-10 and {hundred} on CIFAR-100" in account
    small = statistics_of("cpu")
    costs = [row["augmented"] - row["plain"] for row in small.values()]
    assert f"Images as they are cost {min(costs):.1f} to {max(costs):.1f} points" in account
    hard = next(row for name, row in small.items() if "straight-through" in name)
    more = statistics_of("hard-cpu").values()
    costs = [row["augmented"] - row["plain"] for row in more]
    assert f"in the six networks below {min(costs):.1f} to {max(costs):.1f}." in account
    gains = [row["augmented"] - row["training"] for row in more]
    assert len(gains) == 6 and "three seeds each of AdaSTE and of BinaryConnect, trained as those above" in account
    assert (
        f"reach {min(gains):+.2f} to {max(gains):+.2f} points with the means, {fmean(gains):+.2f} on average "
        "([record](../results/benchmarks/norm-statistics-hard-cpu.json)), "
        f"and straight-through {hard['augmented'] - hard['training']:+.2f}."
    ) in account
    for name, row in small.items():
        told = " | ".join(f"{row[kind]:.2f}" for kind in ("training", "augmented", "plain"))
        assert re.search(rf"\| {name.split('-')[1]}[^|]*\| {told} \|", account, re.IGNORECASE), name


def test_full_precision_of_vgg_on_a_hundred_classes(account: str, found: Found) -> None:
    run = found("released-cifar100-vgg16-full-precision")
    assert f"{run.records[12].train_accuracy:.1f} % training accuracy after epoch 13" in account
    assert f"ends at {accuracy(run, 60)} %, 9.8 points" in account
    nearest = found("released-cifar100-vgg16-pmf-md-bnn")
    assert f"follow it at a distance of {float(below(nearest, run)):.0f} points and more" in account
    common = found("ours-cifar100-vgg16-full-precision")
    assert f"full precision is at {accuracy(common, 60)} % after as many" in account
