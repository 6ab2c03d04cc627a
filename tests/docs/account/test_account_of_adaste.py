"""The numbers of README and docs/reproducing.md on AdaSTE, and on what is ahead of it, are those of results/."""

import math
import statistics

from adaste.paper.collection import Collection, Run
from adaste.paper.report.cell_format import summary
from adaste.paper.tables import TABLES
from adaste.recipes.methods import RELEASED_RATE
from support.pages import words
from support.runs_in_words import Found, Reached, accuracy, below, flipped, published_of, runs_named

ALL_PLACES = ("cifar10-resnet18", "cifar10-vgg16", "cifar100-resnet18", "cifar100-vgg16")
BINARY = {row.method for row in TABLES["table1"].rows} - {"full-precision"}
SEEDED = [
    f"ours-cifar100-{network}-{method}"
    for network in ("resnet18", "vgg16")
    for method in ("adaste", "bayesbinn", "md-tanh")
]


def last_of(runs: list[Run]) -> float:
    return statistics.fmean(run.result.last_accuracy for run in runs)


def flipping(runs: list[Run]) -> float:
    """The share of signs that flip in the middle of the runs."""
    return statistics.fmean(run.records[29].flipped or 0.0 for run in runs)


def in_order(committed: Collection, place: str) -> dict[str, list[Run]]:
    """The binary methods of the paper under the common recipe with 60 epochs, the most accurate first; all seeds."""
    named = {method: runs_named(committed, f"ours-{place}-{method}") for method in BINARY}
    return dict(sorted(((name, runs) for name, runs in named.items() if runs), key=lambda item: -last_of(item[1])))


def test_what_adaste_reaches_under_the_common_recipe(account: str, reached: Reached) -> None:
    binary, real = (
        [reached(f"ours-{place}-{method}") for place in ALL_PLACES] for method in ("adaste", "full-precision")
    )
    behind = [f"{other.mean - one.mean:.2f}" for one, other in zip(binary, real, strict=True)]
    ten, vgg_ten, hundred, vgg_hundred = binary
    assert f"reaches {summary(ten)} % on CIFAR-10 in 60 epochs, {behind[0]} points below full precision" in account
    above = hundred.mean - published_of("adaste")["cifar100-resnet18"].accuracy
    assert (
        f"and {summary(hundred)} % on CIFAR-100 (three seeds), {behind[2]} points below it and {above:.2f} above the"
    ) in account
    assert (
        f"VGG-16 {summary(vgg_ten)} and {summary(vgg_hundred)} %, {behind[1]} and {behind[3]} points below" in account
    )


def test_which_method_is_first_under_the_common_recipe(account: str, reached: Reached, committed: Collection) -> None:
    lead = {place: reached(f"ours-{place}-md-tanh").mean - reached(f"ours-{place}-adaste").mean for place in ALL_PLACES}
    behind = f"{-lead['cifar10-vgg16']:.2f}"
    assert (
        f"by {lead['cifar10-resnet18']:.2f} points on CIFAR-10 and {lead['cifar100-resnet18']:.2f} on CIFAR-100 with "
        f"ResNet-18, and by {lead['cifar100-vgg16']:.2f} on CIFAR-100 with VGG-16; with VGG-16 on CIFAR-10 it is "
        f"{behind} behind (CIFAR-100: means of three seeds, CIFAR-10: one)"
    ) in account
    first = {place: next(iter(in_order(committed, place))) for place in ALL_PLACES}
    assert first == {place: "adaste" if place == "cifar10-vgg16" else "md-tanh" for place in ALL_PLACES}
    tanh, adaste = (
        [run.result.last_accuracy for run in runs_named(committed, f"ours-cifar100-vgg16-{method}")]
        for method in ("md-tanh", "adaste")
    )
    assert f"the worst of its seeds is {min(tanh) - max(adaste):.2f} points above the best of AdaSTE's" in account
    apart = []
    for place in ("cifar10-resnet18", "cifar100-resnet18", "cifar10-vgg16", "cifar100-vgg16"):
        means = [last_of(runs) for name, runs in in_order(committed, place).items() if name != "proxquant"]
        apart.append(f"{max(means) - min(means):.1f}")
    assert "ProxQuant left out ({} and {}, {} and {})".format(*apart) in account
    ten, hundred = (
        [last_of(runs) for runs in in_order(committed, f"{data}-resnet18").values()] for data in ("cifar10", "cifar100")
    )
    assert "though on CIFAR-10 four are within 0.3 points and on CIFAR-100 three within 0.5" in account
    assert ten[0] - ten[3] < 0.3 < ten[0] - ten[4]
    assert hundred[0] - hundred[2] < 0.5 < hundred[0] - hundred[3]


def test_bayesbinn_and_adaste_are_as_good_as_one(account: str, reached: Reached) -> None:
    def ahead(family: str, place: str) -> str:
        lead = reached(f"{family}-{place}-bayesbinn").mean - reached(f"{family}-{place}-adaste").mean
        return f"{abs(lead):.2f} {'ahead' if lead > 0 else 'behind'}"

    ten, vgg, hundred, vgg_hundred = (ahead("ours", place) for place in ALL_PLACES)
    assert (
        f"Under the common recipe it is {ten.removesuffix(' behind')} and {vgg.replace(' ', ' points ')} on CIFAR-10 "
        f"(ResNet-18, VGG-16; one seed), {hundred} and {vgg_hundred} on CIFAR-100 (means of three)"
    ) in account
    ten, vgg, hundred, vgg_hundred = (ahead("released", place) for place in ALL_PLACES)
    assert (
        f"{ten} and {vgg} on CIFAR-10, {hundred.removesuffix(' ahead')} and {vgg_hundred} on CIFAR-100 (one seed)"
    ) in account
    adaste, bayes = published_of("adaste"), published_of("bayesbinn")
    less = [adaste[place].accuracy - bayes[place].accuracy for place in ALL_PLACES]
    assert f"The paper has it {min(less):.1f} to {max(less):.1f} points behind" in account
    above = [reached(f"released-{place}-bayesbinn").mean - bayes[place].accuracy for place in ALL_PLACES]
    assert f"BayesBiNN ends {min(above):.2f} to {max(above):.2f} points above the paper's numbers of 500" in account
    both = [summary(reached(f"ours-cifar100-vgg16-{method}")) for method in ("bayesbinn", "adaste")]
    assert f"({both[0]} against {both[1]} %)" in account


def test_the_three_in_front(readme: str, reached: Reached) -> None:
    ten, hundred = (
        [summary(reached(f"ours-{data}-resnet18-{method}")) for method in ("adaste", "bayesbinn", "md-tanh")]
        for data in ("cifar10", "cifar100")
    )
    assert (
        f"are level: {ten[0]}, {ten[1]} and {ten[2]} % on CIFAR-10 (one seed), {hundred[0]}, {hundred[1]} and "
        f"{hundred[2]} % on CIFAR-100 (three seeds)"
    ) in readme
    tanh, adaste = (summary(reached(f"ours-cifar100-vgg16-{method}")) for method in ("md-tanh", "adaste"))
    assert f"with VGG-16 on CIFAR-100 MD-tanh is ahead ({tanh}, AdaSTE {adaste} %)" in readme


def test_what_a_difference_can_tell(account: str, committed: Collection) -> None:
    seeds = [[run.result.last_accuracy for run in runs_named(committed, name)] for name in SEEDED]
    assert {len(values) for values in seeds} == {3}
    apart = max(max(values) - min(values) for values in seeds)
    assert f"Seeds of one recipe are up to {apart:.2f} points apart on CIFAR-100" in account
    deviation = math.sqrt(statistics.fmean(statistics.variance(values) for values in seeds))
    assert f"their deviations {deviation:.2f} in the quadratic mean" in account
    single, means = math.sqrt(2) * deviation, math.sqrt(2 / 3) * deviation
    assert f"then differ by {single:.2f} in that sense, two means of three seeds by {means:.2f}" in account
    assert "a point for single runs on CIFAR-100, 0.6 for means of three" in account
    assert abs(2 * single - 1) < 0.1 and abs(2 * means - 0.6) < 0.05
    long = [run.result.last_accuracy for run in runs_named(committed, "ours-cifar10-resnet18-adaste", 500)]
    assert f"{max(long) - min(long):.2f} points apart with a deviation of {statistics.stdev(long):.2f}" in account


def test_who_keeps_flipping(account: str, found: Found, committed: Collection) -> None:
    for network in ("resnet18", "vgg16"):
        runs = in_order(committed, f"cifar100-{network}")
        shares = {name: flipping(seeds) for name, seeds in runs.items() if name != "adaste-annealed"}
        assert set(list(runs)[:3]) == {"md-tanh", "bayesbinn", "adaste"} and next(iter(runs)) == "md-tanh"
        assert set(sorted(shares, key=lambda name: -shares[name])[:3]) == set(list(runs)[:3])
        fits = {name: statistics.fmean(run.records[-1].train_accuracy for run in seeds) for name, seeds in runs.items()}
        assert set(sorted(fits, key=lambda name: -fits[name])[:2]) == {"md-tanh-s", "md-softmax-s"}
    usual, faster = (
        found(f"ablation-cifar10-resnet18-{name}") for name in ("straight-through", "straight-through-faster")
    )
    assert (
        f"flips {flipped(faster, 30)} % in epoch 30 instead of {flipped(usual, 30)} and ends {below(faster, usual)} "
        "points lower"
    ) in account
    for data in ("cifar10", "cifar100"):
        rest = {
            name: flipping(runs) for name, runs in in_order(committed, f"{data}-vgg16").items() if name != "proxquant"
        }
        assert min(rest, key=rest.__getitem__) == "pmf" and list(rest)[-1] != "pmf"


def test_what_two_ways_of_testing_may_make(account: str, committed: Collection) -> None:
    middle, last = {}, {}
    for place in ALL_PLACES:
        adaste, bayes = (
            [
                statistics.fmean(run.records[epoch].test_accuracy or 0.0 for run in in_order(committed, place)[method])
                for epoch in range(60)
            ]
            for method in ("adaste", "bayesbinn")
        )
        leads = [other - one for one, other in zip(adaste, bayes, strict=True)]
        middle[place], last[place] = statistics.fmean(leads[20:40]), leads[-1]
    ahead = [place for place in ALL_PLACES if last[place] > 0]
    assert f"BayesBiNN is {min(middle.values()):.1f} to {max(middle.values()):.1f} points ahead" in account
    assert (
        f"in the last one {-min(last.values()):.1f} behind to {max(last.values()):.1f} ahead, and ahead in one setting "
        "alone (CIFAR-100, VGG-16)"
    ) in account
    assert ahead == ["cifar100-vgg16"]


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
        means = {name: last_of(runs) for name, runs in in_order(committed, place).items()}
        forget = {"adaste", "bayesbinn", "md-tanh", "md-softmax"} & set(means)
        leads[place] = min(means[name] for name in forget) - max(
            means[name] for name in set(means) - forget - {"adaste-annealed"}
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


def test_what_the_page_of_methods_says_of_the_ablation(found: Found) -> None:
    page = words("docs/method.md")
    straight, printed, averaged, annealed = (
        accuracy(found(f"ablation-cifar10-resnet18-{row}"), 60)
        for row in ("straight-through", "printed", "averaged-0.9997", "averaged-0.9997-annealed")
    )
    released = accuracy(found("ours-cifar10-resnet18-adaste"), 60)
    assert f"does as well ({straight} and {released} % after 60 epochs, one seed)" in page
    assert f"The printed rule ends at {printed} % on single batches" in page
    assert f"({averaged} % with an average of 0.9997), and annealing then helps ({annealed} %)" in page
