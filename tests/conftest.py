import signal
from pathlib import Path

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)  # the tensors are small: more threads only wait for each other

# A shell starts what it puts into the background with interrupts ignored, and nohup with hang-ups: tests that send
# these signals, also to programs they start, would wait for ever.
for number, handler in {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}.items():
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, handler)

# The same examples every time, however busy the machine is.
settings.register_profile("adaste", deadline=None, derandomize=True)
settings.load_profile("adaste")


@pytest.fixture
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test writes by relative names, and the data it finds, are its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ADASTE_DATA", str(tmp_path))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if torch.cuda.is_available():
        return
    for item in items:
        if "gpu" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))
