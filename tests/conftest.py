"""Settings of the test run: reproducible properties, and a count of what was skipped."""

from __future__ import annotations

import pytest
from hypothesis import settings

settings.register_profile("default", derandomize=True, deadline=None)
settings.load_profile("default")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests the absence of the shared inputs skipped."""
    skipped = terminalreporter.stats.get("skipped", [])
    absent = [report for report in skipped if "shared input" in str(report.longrepr)]
    terminalreporter.write_line(f"skipped for absent shared inputs: {len(absent)}")


@pytest.fixture(params=["numpy", pytest.param("numba", marks=pytest.mark.slow)])
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a test with each form of the engine's inner loops."""
    if request.param == "numba":
        pytest.importorskip("numba")
    monkeypatch.setenv("RVE_KERNELS", request.param)
    return str(request.param)
