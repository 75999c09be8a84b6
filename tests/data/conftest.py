"""An input of each built-in kind of data, which the tests of commands and of all kinds share."""

import pytest
from made_items import write_all


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    return write_all(tmp_path_factory.mktemp("inputs"))
