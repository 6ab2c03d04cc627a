"""Copy the networks of the demonstration from the zoo, and say on its page what their cards say.

python networks.py DEMO      # a copy of demo/; its networks/networks.json names networks of the zoo
"""

import json
import shutil
import sys
from pathlib import Path

ZOO = Path(__file__).parents[1] / "zoo" / "adaste_zoo" / "networks"


def about(card: dict) -> str:
    """Return a sentence about a network."""
    return (
        f"{len(card['classes'])} classes. {card['float32']:.1f} % of {card['images']:,} test images are right; "
        "every weight is one bit."
    )


def main(folder: Path) -> None:
    """Fill the folder of networks."""
    listed = folder / "networks.json"
    content = json.loads(listed.read_text())
    for network in content["networks"]:
        name = network.pop("zoo")
        network |= {"file": f"{name}.safetensors", "about": about(json.loads((ZOO / f"{name}.json").read_text()))}
        shutil.copy(ZOO / network["file"], folder)
    listed.write_text(json.dumps(content))


if __name__ == "__main__":
    main(Path(sys.argv[1]) / "networks")
