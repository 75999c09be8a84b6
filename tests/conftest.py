"""What all tests share; the banks are in banks.py."""

import os

import pytest
import torch

from banks import BANKS, LIBRARIES, ingredients, make_bank, to_library

__all__ = ["BANKS", "LIBRARIES", "ingredients", "make_bank", "to_library"]

torch.set_num_threads(1)
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read when Triton first sees a kernel


@pytest.fixture(params=LIBRARIES)
def library(request):
    return request.param
