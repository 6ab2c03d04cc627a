"""A Ray cluster on this machine, in a process that tests talk to: it gives an address, takes `add` and `lose FOLDER`.

A process of its own, since Ray takes the signals of one that has nodes; and its nodes end when it does.
"""

import sys
from pathlib import Path
from typing import Any

SOON = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 8}
"""When a node counts as lost: after four seconds without an answer, which a busy machine may need for one. Else Ray
would take 15 to give it up."""


def processes_in(folder: str) -> list[int]:
    """Those that have the folder among their arguments."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if folder.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:  # it has just ended
            continue
    return found


def raylet_above(process: int) -> int:
    """The raylet that has started the worker that has started the process."""
    for _ in range(2):
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return process


def lose(cluster: Any, folder: str) -> None:
    """Kill the node on which the run in this folder is."""
    raylet = raylet_above(processes_in(folder)[0])
    (node,) = [node for node in cluster.worker_nodes if node.all_processes["raylet"][0].process.pid == raylet]
    cluster.remove_node(node, allow_graceful=False)


def main() -> None:
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 0, "include_dashboard": False, "_system_config": SOON}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    print(cluster.address, flush=True)
    for line in sys.stdin:
        match line.split():
            case ["add"]:
                cluster.add_node(num_cpus=1)
            case ["lose", folder]:
                lose(cluster, folder)
        print("done", flush=True)
    cluster.shutdown()


if __name__ == "__main__":
    main()
