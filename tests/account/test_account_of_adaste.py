"""The numbers of README and docs/reproducing.md on AdaSTE are those of results/."""

import math
import statistics

from runs_in_words import Found, accuracy, below, ends, flipped, published_of

from adaste.methods import RELEASED_RATE
from adaste.paper.collection import Collection, Run
from adaste.paper.tables import TABLES

ALL_PLACES = ("cifar10-resnet18", "cifar10-vgg16", "cifar100-resnet18", "cifar100-vgg16")
BINARY = {row.method for row in TABLES["table1"].rows} - {"full-precision"}


def in_order(committed: Collection, place: str) -> dict[str, Run]:
    """The binary methods of the paper under the common recipe with 60 epochs, the most accurate first."""
    runs = {
        address.method: run
        for run in committed.runs
        for address in run.addresses
        if (address.family, address.place, run.recipe.epochs) == ("ours", place, 60) and address.method in BINARY
    }
    return dict(sorted(runs.items(), key=lambda item: -item[1].result.last_accuracy))


def test_what_adaste_reaches_under_the_common_recipe(account: str, readme: str, found: Found) -> None:
    ten, hundred = found("ours-cifar10-resnet18-adaste"), found("ours-cifar100-resnet18-adaste")
    behind = [
        below(run, found(f"ours-{data}-resnet18-full-precision"))
        for data, run in (("cifar10", ten), ("cifar100", hundred))
    ]
    assert f"reaches {accuracy(ten, 60)} % on CIFAR-10 in 60 epochs, {behind[0]} points below full" in account
    assert f"and {accuracy(hundred, 60)} % on CIFAR-100, {behind[1]} points below it" in account
    vgg, real = (
        [found(f"ours-{data}-vgg16-{method}") for data in ("cifar10", "cifar100")]
        for method in ("adaste", "full-precision")
    )
    distances = [below(one, other) for one, other in zip(vgg, real, strict=True)]
    assert f"VGG-16 {accuracy(vgg[0], 60)} and {accuracy(vgg[1], 60)} %, {distances[0]} and {distances[1]}" in account


def test_which_method_is_first_under_the_common_recipe(account: str, found: Found, committed: Collection) -> None:
    lead = {
        place: found(f"ours-{place}-md-tanh").result.last_accuracy - found(f"ours-{place}-adaste").result.last_accuracy
        for place in ALL_PLACES
    }
    behind = f"{-lead['cifar10-vgg16']:.2f}"
    assert (
        f"by {lead['cifar10-resnet18']:.2f} points on CIFAR-10 and {lead['cifar100-resnet18']:.2f} on CIFAR-100 with "
        f"ResNet-18, and by {lead['cifar100-vgg16']:.2f} on CIFAR-100 with VGG-16; with VGG-16 on CIFAR-10 it is "
        f"{behind} behind."
    ) in account
    first = {place: next(iter(in_order(committed, place))) for place in ALL_PLACES}
    assert first == {place: "adaste" if place == "cifar10-vgg16" else "md-tanh" for place in ALL_PLACES}
    apart = []
    for place in ("cifar10-resnet18", "cifar100-resnet18", "cifar10-vgg16", "cifar100-vgg16"):
        reached = [run.result.last_accuracy for name, run in in_order(committed, place).items() if name != "proxquant"]
        apart.append(f"{max(reached) - min(reached):.1f}")
    assert "ProxQuant left out ({} and {}, {} and {})".format(*apart) in account
    ten = [run.result.last_accuracy for run in in_order(committed, "cifar10-resnet18").values()]
    assert "though on CIFAR-10 four are within 0.3 points" in account
    assert ten[0] - ten[3] < 0.3 < ten[0] - ten[4]


def test_bayesbinn_and_adaste_are_as_good_as_one(account: str, readme: str, found: Found) -> None:
    def ahead(family: str, place: str) -> str:
        lead = float(below(found(f"{family}-{place}-adaste"), found(f"{family}-{place}-bayesbinn")))
        return f"{abs(lead):.2f} {'ahead' if lead > 0 else 'behind'}"

    common = {place: ahead("ours", place).split() for place in ALL_PLACES}
    ten, vgg, hundred, vgg_hundred = (common[place] for place in ALL_PLACES)
    assert ten[1] == vgg[1] == "behind" and hundred[1] == vgg_hundred[1] == "ahead"
    assert (
        f"Under the common recipe it is {ten[0]} and {vgg[0]} points behind on CIFAR-10 (ResNet-18, VGG-16), "
        f"{hundred[0]} and {vgg_hundred[0]} ahead on CIFAR-100"
    ) in account
    ten, hundred, vgg_hundred = (
        ahead("released", place).split() for place in ("cifar10-resnet18", "cifar100-resnet18", "cifar100-vgg16")
    )
    assert ten[1] == "behind" and hundred[1] == vgg_hundred[1] == "ahead"
    assert f"{ten[0]} behind on CIFAR-10 (ResNet-18), {hundred[0]} and {vgg_hundred[0]} ahead on CIFAR-100" in account
    adaste, bayes = published_of("adaste"), published_of("bayesbinn")
    less = [adaste[place].accuracy - bayes[place].accuracy for place in ALL_PLACES]
    assert f"The paper has it {min(less):.1f} to {max(less):.1f} points behind" in account
    above = [
        found(f"released-{place}-bayesbinn").result.last_accuracy - bayes[place].accuracy
        for place in ("cifar100-resnet18", "cifar100-vgg16")
    ]
    assert f"are {above[0]:.2f} (ResNet-18) and {above[1]:.2f} points (VGG-16) above the paper's of 500" in account
    one, other, first = (
        [found(f"ours-{data}-resnet18-{method}") for data in ("cifar10", "cifar100")]
        for method in ("adaste", "bayesbinn", "md-tanh")
    )
    assert (
        f"({ends(one[0], other[0])} % on CIFAR-10, {ends(one[1], other[1])} % on CIFAR-100). MD-tanh is level with "
        f"them on CIFAR-10 ({accuracy(first[0], 60)} %) and seems ahead on CIFAR-100 ({accuracy(first[1], 60)} %)"
    ) in readme


def test_who_keeps_flipping(account: str, found: Found, committed: Collection) -> None:
    for network in ("resnet18", "vgg16"):
        runs = in_order(committed, f"cifar100-{network}")
        shares = {name: run.records[29].flipped for name, run in runs.items() if name != "adaste-annealed"}
        assert list(runs)[:3] == ["md-tanh", "bayesbinn", "adaste"]
        assert set(sorted(shares, key=lambda name: -shares[name])[:3]) == set(list(runs)[:3])
        fitted = sorted(runs, key=lambda name: -runs[name].records[-1].train_accuracy)
        assert set(fitted[:2]) == {"md-tanh-s", "md-softmax-s"}
    usual, faster = (
        found(f"ablation-cifar10-resnet18-{name}") for name in ("straight-through", "straight-through-faster")
    )
    assert (
        f"flips {flipped(faster, 30)} % in epoch 30 instead of {flipped(usual, 30)} and ends {below(faster, usual)} "
        "points lower"
    ) in account
    for data in ("cifar10", "cifar100"):
        vgg = in_order(committed, f"{data}-vgg16")
        rest = {name: run.records[29].flipped for name, run in vgg.items() if name != "proxquant"}
        assert min(rest, key=rest.__getitem__) == "pmf" and list(rest)[-1] != "pmf"


def test_what_two_ways_of_testing_may_make(account: str, found: Found) -> None:
    middle, last = [], []
    for place in ALL_PLACES:
        adaste, bayes = (found(f"ours-{place}-{method}").records for method in ("adaste", "bayesbinn"))
        leads = [
            (other.test_accuracy or 0) - (one.test_accuracy or 0) for one, other in zip(adaste, bayes, strict=True)
        ]
        middle.append(statistics.fmean(leads[20:40]))
        last.append(leads[-1])
    assert f"BayesBiNN is {min(middle):.1f} to {max(middle):.1f} points ahead" in account
    assert f"in the last one {-min(last):.1f} behind to {max(last):.1f} ahead, and on CIFAR-10 not at all" in account
    assert max(last[:2]) < 0  # CIFAR-10


def test_how_far_methods_of_nearly_one_kind_differ(account: str, found: Found) -> None:
    apart = max(
        abs(float(below(found(f"ours-{place}-adaste"), found(f"ours-{place}-bayesbinn")))) for place in ALL_PLACES
    )
    assert f"AdaSTE and BayesBiNN, nearly one method, differ by up to {apart:.2f}" in account


def test_what_the_printed_rule_gains_in_its_last_epoch(account: str, found: Found) -> None:
    runs = [found(f"ablation-cifar10-resnet18-averaged-{rate}") for rate in ("0.99", "0.999", "0.9997")]
    gains = [run.records[-1].test_accuracy - run.records[-2].test_accuracy for run in runs]
    fitted = [run.records[-1].train_accuracy - run.records[-2].train_accuracy for run in runs]
    assert f"gains {min(gains):.0f} to {max(gains):.0f} points in its last epoch" in account
    assert {f"{gain:.0f}" for gain in fitted} == {
        "1"
    } and "in its last epoch, and training accuracy about 1:" in account


def test_those_in_front_forget(account: str, found: Found, committed: Collection) -> None:
    run = found("ours-cifar10-resnet18-md-tanh")
    steps = 60 * (50_000 // run.recipe.batch)
    beta = run.recipe.estimator.beta  # type: ignore[attr-defined]
    assert (beta.start, beta.stop, beta.length) == (1.0, 2e4, 60)
    rate = math.log(beta.stop) / steps
    assert f"log(2e4) / {steps:,} = {rate:.1e} or {round(1 / rate, -2):,.0f} steps".replace("e-04", "e-4") in account
    assert RELEASED_RATE == 3e-4 and "at a rate of 3e-4: they remember some 3,300 steps" in account
    leads = {}
    for place in ALL_PLACES:
        reached = {name: run.result.last_accuracy for name, run in in_order(committed, place).items()}
        forget = {"adaste", "bayesbinn", "md-tanh", "md-softmax"} & set(reached)
        leads[place] = min(reached[name] for name in forget) - max(
            reached[name] for name in set(reached) - forget - {"adaste-annealed"}
        )
    least = leads.pop("cifar100-vgg16")
    assert f"if only by {least:.2f} points in one of them (CIFAR-100, VGG-16)" in account
    assert f"and by {min(leads.values()):.2f} to {max(leads.values()):.2f} in the others" in account


def test_the_simplest_form_of_straight_through(account: str, found: Found) -> None:
    simplest = found("ours-cifar10-resnet18-straight-through", 30)
    adaste = found("cifar10-resnet-adaste", 30, digest="49")
    assert f"({accuracy(simplest, 30)} % after 30 epochs, AdaSTE {accuracy(adaste, 30)})" in account


def test_the_jump_of_annealing(account: str, found: Found) -> None:
    annealed, constant = found("released-cifar10-resnet18-adaste-annealed"), found("released-cifar10-resnet18-adaste")
    assert annealed.records[15].method["mu"] == annealed.records[16].method["mu"] == 100
    assert annealed.records[14].method["mu"] < 100
    assert f"falls from {accuracy(annealed, 16)} to {accuracy(annealed, 17)} %" in account
    assert f"rises from {flipped(annealed, 16)} to {flipped(annealed, 17)} %" in account
    assert f"({accuracy(annealed, 16)} against {accuracy(constant, 16)} %)" in account
    assert f"{accuracy(annealed, 60)} against {accuracy(constant, 60)} % at the end" in account


def test_the_printed_rule_with_and_without_an_average(account: str, found: Found) -> None:
    printed, averaged = (
        found("ablation-cifar10-resnet18-printed"),
        found("ablation-cifar10-resnet18-averaged-0.9997"),
    )
    assert f"{accuracy(printed, 60)} % after 60 epochs" in account
    assert f"from {flipped(printed, 1)} to {flipped(printed, 60)} % while" in account
    assert f"from {printed.records[0].latent:.2f} to {printed.records[-1].latent:.2f} on average" in account
    shorter = [found(f"ablation-cifar10-resnet18-averaged-{rate}") for rate in ("0.99", "0.999")]
    at = [accuracy(run, 60) for run in (*shorter, averaged)]
    assert f"{at[0]} % at 0.99, {at[1]} at 0.999, {at[2]} at 0.9997" in account
    assert f"at 0.9997 {flipped(averaged, 60)} % of the weights flip in the last epoch" in account
    released = found("ours-cifar10-resnet18-adaste")
    assert (
        f"{flipped(released, 60, 2)} % do with the released update, which ends at {accuracy(released, 60)}" in account
    )


def test_what_annealing_gives_the_printed_rule(account: str, found: Found) -> None:
    row = "ablation-cifar10-resnet18"
    gains = [
        f"{found(f'{row}-averaged-{rate}-annealed').result.last_accuracy - constant.result.last_accuracy:.1f}"
        for rate, constant in (
            ("0.99", found(f"{row}-averaged-0.99")),
            ("0.999", found(f"{row}-averaged-0.999")),
            ("0.9997", found(f"{row}-averaged-0.9997")),
        )
    ]
    assert f"by {gains[0]} points at 0.99, {gains[1]} at 0.999, {gains[2]} at 0.9997" in account
    assert f"the last of them, {accuracy(found(f'{row}-averaged-0.9997-annealed'), 60)} %" in account
    assert f"changes nothing ({accuracy(found(f'{row}-printed-annealed'), 60)} %)" in account


def test_the_released_update_beside_straight_through(account: str, found: Found) -> None:
    straight, faster, gated = (
        found(f"ablation-cifar10-resnet18-{method}")
        for method in ("straight-through", "straight-through-faster", "released-gate-everywhere")
    )
    released = found("ours-cifar10-resnet18-adaste")
    assert f"ends at {accuracy(straight, 60)} % where the released update ends at {accuracy(released, 60)} %" in account
    assert f"and at {accuracy(faster, 60)} % with an average three times as fast" in account
    assert f"ends at {accuracy(gated, 60)} %: {flipped(gated, 60)} % of all signs flip in its last epoch" in account
