"""An input of each built-in kind of data, shared by the tests of commands and of all kinds."""

import pytest
from made_items import write_all


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    return write_all(tmp_path_factory.mktemp("inputs"))
