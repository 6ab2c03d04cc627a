"""Many runs: in processes of this machine, or on the nodes of a Ray cluster."""
