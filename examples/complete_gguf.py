"""Let llama.cpp continue a text with a GGUF file. Needs `pip install xllamacpp`, llama.cpp compiled already.

python examples/complete_gguf.py model.gguf "def "
"""

import argparse
from pathlib import Path

import xllamacpp


def main(path: Path, text: str, tokens: int = 120, temperature: float = 0.8) -> str:
    settings = xllamacpp.CommonParams()
    settings.model.path = str(path)
    settings.verbosity = 0  # errors alone
    server = xllamacpp.Server(settings)
    answer = server.handle_completions({"prompt": text, "max_tokens": tokens, "temperature": temperature})
    if "error" in answer:
        raise SystemExit(f"llama.cpp: {answer['error']['message']}")
    return text + answer["choices"][0]["text"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, help="the GGUF file")
    parser.add_argument("text", help="what to continue")
    parser.add_argument("--tokens", type=int, default=120, help="the number of tokens to write")
    parser.add_argument("--temperature", type=float, default=0.8)
    arguments = parser.parse_args()
    if not arguments.path.is_file():
        parser.error(f"there is no file {arguments.path}")
    print(main(arguments.path, arguments.text, arguments.tokens, arguments.temperature))
