from typing import Any

import pytest

from support.faults import MADE
from support.small_runs import outcome, small_run


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a run that nothing happened to leaves behind."""
    folder = tmp_path_factory.mktemp("whole")
    small_run(MADE, folder)
    return outcome(folder)
