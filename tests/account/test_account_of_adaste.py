"""The numbers of README and docs/reproducing.md on AdaSTE are those of results/."""

from runs_in_words import Found, accuracy, below, flipped

from adaste.paper.collection import Collection
from adaste.paper.tables import TABLES


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
    next_best, annealed = found("ours-cifar10-resnet18-md-softmax"), found("ours-cifar100-resnet18-adaste-annealed")
    assert f"{accuracy(ten, 60)} % against {accuracy(next_best, 60)} of the next on CIFAR-10" in account
    assert f"{accuracy(hundred, 60)} against {accuracy(annealed, 60)} of its own annealed form" in account
    assert f"{accuracy(ten, 60)} % on CIFAR-10, {accuracy(hundred, 60)} % on CIFAR-100" in readme
    distances = [below(one, other) for one, other in zip(vgg, real, strict=True)]
    assert f"VGG-16 {accuracy(vgg[0], 60)} and {accuracy(vgg[1], 60)} %, {distances[0]} and {distances[1]}" in account


def test_what_the_recommendation_rests_on(account: str, committed: Collection) -> None:
    reached = {
        (address.family, address.place, address.method): run.result.last_accuracy
        for run in committed.runs
        for address in run.addresses
        if run.recipe.epochs == 60
    }
    others = [row.method for row in TABLES["table1"].rows if row.method not in ("full-precision", "adaste")]
    for family, ahead in (("ours", []), ("released", [("cifar10-vgg16", "adaste-annealed")])):
        assert ahead == [
            (place, method)
            for place in ("cifar10-vgg16", "cifar10-resnet18", "cifar100-vgg16", "cifar100-resnet18")
            for method in dict.fromkeys(others)
            if reached.get((family, place, method), 0) > reached[family, place, "adaste"]
        ]
    lead = reached["released", "cifar10-vgg16", "adaste-annealed"] - reached["released", "cifar10-vgg16", "adaste"]
    assert f"but one, where annealing is {lead:.2f} points ahead" in account
    less = [
        reached["ours", place, "adaste"] - reached["ours", place, "bayesbinn"]
        for place in ("cifar100-resnet18", "cifar10-resnet18")
    ]
    assert f"is {less[0]:.1f} points below it on CIFAR-100 with ResNet-18" in account
    assert f"common recipe ({less[1]:.1f} on CIFAR-10)" in account


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
