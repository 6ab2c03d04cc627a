"""The numbers of README and docs/reproducing.md on runs longer than 60 epochs are those of results/."""

import pytest

from adaste.paper.cells import OverSeeds, best_test_accuracy
from adaste.paper.collection import Collection, Run
from adaste.paper.report.cell_format import summary
from support.runs_in_words import Found, Reached, accuracy, below, ends, flipped, published_of, runs_named


@pytest.fixture(scope="module")
def seeds(committed: Collection) -> list[Run]:
    """AdaSTE with 500 epochs, ResNet-18, CIFAR-10."""
    return runs_named(committed, "ours-cifar10-resnet18-adaste", 500)


def test_what_adaste_reaches_in_500_epochs(
    account: str, readme: str, found: Found, reached: Reached, seeds: list[Run]
) -> None:
    ten, hundred = found("ours-cifar10-resnet18-adaste", 500), found("ours-cifar100-resnet18-adaste", 500)
    annealed = published_of("adaste-annealed")
    papers = [annealed[f"{data}-resnet18"].accuracy for data in ("cifar10", "cifar100")]
    values = [run.result.last_accuracy for run in seeds]
    over, apart = OverSeeds.of(values), max(values) - min(values)
    assert (
        f"at {summary(over)} % on CIFAR-10 (mean and deviation of three seeds: "
        f"{', '.join(f'{value:.2f}' for value in values)}) and {accuracy(hundred, 500)} % on CIFAR-100, "
        f"{over.mean - papers[0]:.2f} and {hundred.result.last_accuracy - papers[1]:.2f} "
        f"points above ({papers[0]:.2f} and {papers[1]:.2f})"
    ) in account
    best_mean = OverSeeds.of([best_test_accuracy(run) for run in seeds]).mean
    assert f"in their best ones the three seeds are at {best_mean:.2f} % on average" in account
    assert f"the three without annealing on CIFAR-10 with ResNet-18, which are {apart:.2f} points apart" in account
    longer = [found(f"ours-{data}-resnet18-full-precision", 500) for data in ("cifar10", "cifar100")]
    prices = [
        f"{reached(f'ours-{data}-resnet18-full-precision').mean - reached(f'ours-{data}-resnet18-adaste').mean:.2f}"
        for data in ("cifar10", "cifar100")
    ]
    assert (
        f"{longer[0].result.last_accuracy - over.mean:.2f} points with ResNet-18 on CIFAR-10 ({prices[0]} after 60 "
        f"epochs) and {below(hundred, longer[1])} on CIFAR-100 ({prices[1]}), with VGG-16"
    ) in account
    real = published_of("full-precision")
    above = [
        found(f"ours-{place}-full-precision", 500).result.last_accuracy - real[place].accuracy
        for place in ("cifar10-resnet18", "cifar10-vgg16", "cifar100-resnet18", "cifar100-vgg16")
    ]
    assert f"Full precision is above the paper, too, by {min(above):.2f} to {max(above):.2f} points" in account
    with_jump = [found(f"ours-{data}-resnet18-adaste-annealed", 500) for data in ("cifar10", "cifar100")]
    assert f"and annealed at {ends(*with_jump)} %. With VGG-16" in account
    behind = (
        f"{over.mean - with_jump[0].result.last_accuracy:.2f} and {below(with_jump[1], hundred)} behind with ResNet-18"
    )
    assert f"{behind}. One seed each, but for the three" in account
    assert f"{behind}: it is not worth" in account
    assert f"{flipped(ten, 250)} % of them flip in epoch 250 on CIFAR-10" in account
    assert f"(first seed), {flipped(ten, 500, 3)} % in the last" in account
    assert (
        f"AdaSTE ends at {summary(over)} % (three seeds) and {accuracy(hundred, 500)} %, above the best epochs the "
        f"paper has ({papers[0]:.2f} and {papers[1]:.2f}); its other cells are [above them]"
    ) in readme
    for run, paper in zip((*with_jump, *seeds, hundred), (*papers, *[papers[0]] * 3, papers[1]), strict=True):
        assert run.result.last_accuracy > paper
    short = [reached(f"ours-{data}-resnet18-adaste").mean for data in ("cifar10", "cifar100")]
    gained = [over.mean - short[0], hundred.result.last_accuracy - short[1]]
    assert f"500 epochs instead of 60 gave AdaSTE {gained[0]:.1f} and {gained[1]:.1f} points" in account


def test_what_vgg_reaches_in_500_epochs(account: str, found: Found, reached: Reached) -> None:
    paper = published_of("adaste-annealed")
    places = ("cifar10-vgg16", "cifar100-vgg16")
    real, constant, annealed = (
        [found(f"ours-{place}-{method}", 500) for place in places]
        for method in ("full-precision", "adaste", "adaste-annealed")
    )
    at = [" and ".join(accuracy(run, 500) for run in runs) for runs in (constant, annealed)]
    papers = " and ".join(f"{paper[place].accuracy:.2f}" for place in places)
    assert f"With VGG-16 it ends at {at[0]} %, annealed at {at[1]} %, where the paper has {papers}." in account
    for place, *runs in zip(places, constant, annealed, strict=True):
        assert min(run.result.last_accuracy for run in runs) > paper[place].accuracy
    prices = [below(one, other) for one, other in zip(constant, real, strict=True)]
    short = [
        f"{reached(f'ours-{place}-full-precision').mean - reached(f'ours-{place}-adaste').mean:.2f}" for place in places
    ]
    for long, brief in zip(prices, short, strict=True):
        assert float(long) > float(brief), "full precision gains more"
    assert f"{prices[0]} points on CIFAR-10 ({short[0]}) and {prices[1]} on CIFAR-100 ({short[1]})." in account
    ahead = " and ".join(below(one, other) for one, other in zip(constant, annealed, strict=True))
    assert f"ends {ahead} points ahead" in account
    assert f"annealing is {ahead} points ahead" in account
    gained = " and ".join(
        f"{run.result.last_accuracy - reached(f'ours-{place}-adaste').mean:.1f}"
        for place, run in zip(places, constant, strict=True)
    )
    assert f"{gained} with VGG-16, about as much as lies between" in account


def test_the_jump_of_annealing_in_500_epochs(account: str, found: Found) -> None:
    places = ("cifar10-vgg16", "cifar100-vgg16", "cifar10-resnet18", "cifar100-resnet18")
    runs = [found(f"ours-{place}-adaste-annealed", 500) for place in places]
    for run in runs:
        assert run.records[133].method["mu"] < run.records[134].method["mu"] == 100
    signs = [flipped(run, 136, 0) for run in runs]
    assert f"{signs[0]} % of all signs of VGG-16 flip in one epoch on CIFAR-10 and {signs[1]} % on CIFAR-100" in account
    assert f"{signs[2]} and {signs[3]} % of those of ResNet-18" in account
    falls = [f"from {accuracy(run, 135)} to {accuracy(run, 136)} %" for run in runs]
    assert f"test accuracy falls {falls[0]}, {falls[1]}, {falls[2]} and {falls[3]}. With 365 epochs left" in account


def test_the_unstable_mirror_descent_as_long_as_its_scripts(account: str, readme: str, found: Found) -> None:
    long = found("released-cifar10-vgg16-md-tanh", 285)
    short = {
        place: found(f"released-{place}-md-tanh")
        for place in ("cifar10-resnet18", "cifar10-vgg16", "cifar100-resnet18", "cifar100-vgg16")
    }
    at = {place: accuracy(run, 60) for place, run in short.items()}
    assert (
        f"ends at {at['cifar10-resnet18']} % (ResNet-18) and {at['cifar10-vgg16']} % (VGG-16) on CIFAR-10, at "
        f"{at['cifar100-resnet18']} and {at['cifar100-vgg16']} % on CIFAR-100"
    ) in account
    published = f"{published_of('md-tanh')['cifar10-vgg16'].accuracy:.2f}"
    assert f"VGG-16 ends at {accuracy(long, 285)} % on CIFAR-10; the published number is {published}." in account
    assert f"after 285 epochs, where {published} are published ({at['cifar10-vgg16']} % after 60)" in account
    assert f"MD-tanh reaches {accuracy(long, 285)} % in the 285 of its scripts" in readme
    chosen = long.result.best_epoch + 1
    assert f"(In epoch {chosen}, which its held-out images choose" in account
    assert f"it is at {accuracy(long, chosen)} %.)" in account
    fitted = [record.train_accuracy for record in long.records]
    assert f"from {fitted[64]:.1f} % in epoch 65 to {fitted[66]:.1f} % in epoch 67" in account
    assert f"from {fitted[82]:.1f} to {fitted[84]:.1f} % in epoch 85" in account
    assert f"from {fitted[131]:.1f} to {fitted[132]:.1f} % in epoch 133" in account
    first = next(record.epoch + 1 for record in long.records if record.test_accuracy > 80)
    assert f"first above 80 % in epoch {first} of 285" in account
