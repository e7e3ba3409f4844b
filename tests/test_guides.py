"""What the guides show is what happens."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import dask
import pytest

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["clusters.md"])
def test_python_blocks_give_what_they_show(name: str, tmp_path: Path) -> None:
    text = (DOCS / name).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    test = doctest.DocTestParser().get_doctest("".join(blocks), {}, name, None, 0)
    runner = doctest.DocTestRunner()
    with dask.config.set(temporary_directory=str(tmp_path)):
        runner.run(test)
    assert runner.failures == 0
    assert runner.tries > 8
