"""Stochastic attention for torch (extra `torch`) and transformers; the memories are the keys of an attention layer.

from stochattn.nn import stochastic, stochastic_attention
out = stochastic_attention(query, key, value, n_steps=10)   # shapes of scaled_dot_product_attention
with stochastic(model, n_steps=10):                         # a pretrained model, any of its layers
    model.generate(...)
"""

try:
    import torch  # noqa: F401
except ImportError:
    raise ImportError(
        "stochattn.nn needs torch. Install it with: pip install 'stochattn[torch]', or '.[torch]' in a checkout"
    ) from None

from .functional import langevin_states, stochastic_attention
from .hopfield import HopfieldMemory
from .multihead import StochasticMultiheadAttention
from .pretrained import attention_modules, register, stochastic
from .steps import LangevinSteps

__all__ = [
    "HopfieldMemory",
    "LangevinSteps",
    "StochasticMultiheadAttention",
    "attention_modules",
    "langevin_states",
    "register",
    "stochastic",
    "stochastic_attention",
]
