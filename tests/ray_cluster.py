"""A Ray cluster on this machine, in a process that tests talk to: it gives an address, and takes `add`, `lose`, `end`.

A process of its own, since Ray takes the signals of one that has nodes; and its nodes end when it does.
"""

import sys
from typing import Any

from ray.cluster_utils import Cluster


def answer(text: str) -> None:
    print(text, file=sys.__stdout__, flush=True)


def main() -> None:
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    added: list[Any] = []
    answer(cluster.address)
    for line in sys.stdin:
        match line.strip():
            case "add":
                added.append(cluster.add_node(num_cpus=1))
            case "lose":
                cluster.remove_node(added.pop(), allow_graceful=False)
            case "end":
                break
        answer(line.strip())
    cluster.shutdown()


if __name__ == "__main__":
    main()
