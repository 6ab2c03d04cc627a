"""`adaste evaluate`: what a trained network reaches on the test images."""

import argparse

from adaste.cli import options
from adaste.startup import forget_unlinked

EXAMPLES = options.examples(
    "adaste evaluate runs/digits-mlp-adaste-0123456789abcdef",
    "adaste evaluate runs/digits-mlp-adaste-0123456789abcdef --network best --device cpu",
)


def add_to(commands: options.Commands) -> None:
    """Add the command."""
    parser = options.command(commands, "evaluate", "test the network of a run on the test images", EXAMPLES)
    options.add_network(parser)
    options.add_data(parser)
    options.add_machine(parser)
    parser.set_defaults(act=act)


def act(arguments: argparse.Namespace) -> int:
    """Evaluate, and print the outcome beside what the run had recorded."""
    forget_unlinked()
    from adaste.data import load
    from adaste.evaluate import evaluate, network_of_run

    options.use_threads(arguments.threads)
    exported = network_of_run(arguments.run, arguments.network)
    device = options.device_named(arguments.device)
    dataset = load(exported.recipe.data, arguments.data)
    score = evaluate(exported, dataset, device=device, engine=arguments.engine)
    record = exported.record
    print(f"{exported.path}: epoch {record.epoch + 1} of {exported.recipe.epochs}, {score.count:,} test images")
    print(f"now       accuracy {score.accuracy:.2f} %  loss {score.loss:.4f}  on {device}")
    if record.test_accuracy is not None and record.test_loss is not None:
        print(f"recorded  accuracy {record.test_accuracy:.2f} %  loss {record.test_loss:.4f}")
    return 0
