"""GPU kernels written in Triton, each beside a plain torch version that tests hold it equal to."""
