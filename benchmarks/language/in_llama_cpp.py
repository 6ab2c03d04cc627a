"""Compare a trained network with its GGUF files in llama.cpp: likelihoods, size and speed.

Needs `make llama`, which tells likelihoods, and xllamacpp, whose times have no JavaScript in them.

    python -m benchmarks.language.in_llama_cpp WEIGHTS.safetensors --record RUN.json --text FILE --output FILE.json

WEIGHTS is what `study --weights` kept, RUN its record, from which the shape and the text's division are taken. The F16
file has random weights of the same shape: time and size do not depend on them.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import adaste
from adaste._util.files import write_json
from adaste.runs.environment import environment
from benchmarks.language.llama import Llama, Shape, to_hugging_face
from benchmarks.language.recipe import Recipe
from benchmarks.language.train import read_text
from benchmarks.language.weights import load_weights

HERE = Path(__file__).parent
HOME = HERE.parents[1] / ".venv" / "llama"
"""Where `make llama` installs llama.cpp."""


def is_installed() -> bool:
    """Return whether node and node-llama-cpp are there."""
    return shutil.which("node") is not None and (HOME / "node_modules" / "node-llama-cpp").exists()


def ask(
    path: Path,
    sequences: Sequence[Sequence[int]] = (),
    texts: Sequence[str] = (),
    *,
    threads: int = 1,
) -> dict[str, Any]:
    """Return what llama.cpp makes of a file.

    Args:
        path: The GGUF file.
        sequences: Tokens; the log-likelihood of all but the first of each is returned as "likelihoods".
        texts: Texts whose "tokens" are returned, and the "texts" that these spell.
        threads: Of the computation.
    """
    question = {"path": str(path), "sequences": sequences, "texts": texts, "threads": threads}
    command = ["node", str(HERE / "llama_cpp.mjs"), str(HOME)]
    done = subprocess.run(command, input=json.dumps(question), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"llama.cpp failed on {path}: {done.stderr.strip()}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def tokens_per_second(path: Path, count: int, threads: int) -> float:
    """Return how fast llama.cpp generates tokens with a file, one after the other, by its own clock."""
    import xllamacpp

    settings = xllamacpp.CommonParams()
    settings.model.path, settings.verbosity, settings.cpuparams.n_threads = str(path), 0, threads
    question = {"prompt": [10, 10], "max_tokens": count, "temperature": 0.0, "ignore_eos": True}
    times = xllamacpp.Server(settings).handle_completions(question)["timings"]
    if times["predicted_n"] != count:
        raise RuntimeError(f"llama.cpp generated {times['predicted_n']} tokens with {path} instead of {count}")
    return float(times["predicted_per_second"])


@torch.no_grad()
def log_likelihoods(model: Any, sequences: Tensor) -> Tensor:
    """Return those of all tokens but the first, as torch computes them in float32."""
    rows = [model(some).logits[:, :-1].log_softmax(-1) for some in sequences.split(8)]
    return torch.cat(rows).gather(-1, sequences[:, 1:, None])[..., 0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights", type=Path, help="the network, from study --weights")
    parser.add_argument("--record", type=Path, required=True, help="the record of its run")
    parser.add_argument("--text", type=Path, required=True, help="the text of the run")
    parser.add_argument("--output", type=Path, required=True, help="the record to write")
    parser.add_argument("--gguf", type=Path, help="keep the one-bit file here")
    parser.add_argument("--sequences", type=int, default=64, help="sequences of the measured text to compare")
    parser.add_argument("--generate", type=int, default=200, help="tokens to generate in each round")
    parser.add_argument("--rounds", type=int, default=9, help="rounds, in which the files take turns")
    parser.add_argument("--threads", type=int, default=2, help="threads that generate: the cores of an idle machine")
    arguments = parser.parse_args()
    recipe = Recipe(**json.loads(arguments.record.read_text())["recipe"])
    text = read_text(arguments.text, recipe, torch.device("cpu"))
    fields = ("layers", "width", "heads", "intermediate", "context", "dropout")
    network = Llama(Shape(text.tokens, **{name: getattr(recipe, name) for name in fields}))
    load_weights(arguments.weights, network)
    model = to_hugging_face(network)

    with tempfile.TemporaryDirectory() as folder:
        one_bit = arguments.gguf or Path(folder) / "q1_0.gguf"
        real = Path(folder) / "f16.gguf"
        adaste.export_gguf(model, text.characters, one_bit)
        real_weights = Llama(network.shape)  # the same shape, whose matrices nothing can take for binary
        adaste.export_gguf(to_hugging_face(real_weights), text.characters, real, float_layers="*")

        length = recipe.context
        sequences = text.measured[: arguments.sequences * length].long().view(-1, length)
        wanted = log_likelihoods(model, sequences)
        found = torch.tensor(ask(one_bit, sequences.tolist(), threads=arguments.threads)["likelihoods"])
        count = min(arguments.generate, recipe.context - 2)  # behind a prompt of two
        rates: dict[Path, list[float]] = {one_bit: [], real: []}
        for _ in range(arguments.rounds):
            for path, measured in rates.items():
                measured.append(tokens_per_second(path, count, arguments.threads))
        record = {
            "run": arguments.record.name,
            "tokens_compared": wanted.numel(),
            "nats_torch": -float(wanted.mean()),
            "nats_llama_cpp": -float(found.mean()),
            "bytes_q1_0": one_bit.stat().st_size,
            "bytes_f16": real.stat().st_size,
            "generated": count,
            "rounds": arguments.rounds,
            "threads": arguments.threads,
            "tokens_per_second_q1_0": {"median": statistics.median(rates[one_bit]), "most": max(rates[one_bit])},
            "tokens_per_second_f16": {"median": statistics.median(rates[real]), "most": max(rates[real])},
            "environment": environment(torch.device("cpu")),
        }
    write_json(arguments.output, record)
    print(json.dumps({name: value for name, value in record.items() if name != "environment"}, indent=1))


if __name__ == "__main__":
    main()
