"""Stochastic attention for torch (extra `torch`) and transformers; the memories are the keys of an attention layer."""

try:
    import torch  # noqa: F401
except ImportError:
    raise ImportError("stochattn.nn needs torch: pip install 'stochattn[torch]', or '.[torch]' in a checkout") from None

from .functional import langevin_states, stochastic_attention
from .hopfield import HopfieldMemory
from .inspection import attention_modules, check
from .multihead import StochasticMultiheadAttention
from .multihead_memory import Hopfield, HopfieldLayer, HopfieldPooling
from .pretrained import register, stochastic
from .ranks import ShardedMemory
from .steps import LangevinSteps

__all__ = [
    "Hopfield",
    "HopfieldLayer",
    "HopfieldMemory",
    "HopfieldPooling",
    "LangevinSteps",
    "ShardedMemory",
    "StochasticMultiheadAttention",
    "attention_modules",
    "check",
    "langevin_states",
    "register",
    "stochastic",
    "stochastic_attention",
]
