import pytest
import torch

from adaste.paper.mathematics.drift import compare


@pytest.fixture(scope="session")
def courses() -> dict[str, torch.Tensor]:
    """The simulation of the documentation; it takes a second or two."""
    return compare()
