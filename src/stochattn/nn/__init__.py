"""Stochastic attention for torch (extra `torch`): the memories are the keys of an attention layer.

from stochattn.nn import stochastic_attention
out = stochastic_attention(query, key, value, n_steps=10)   # shapes of scaled_dot_product_attention
"""

from .functional import langevin_states, stochastic_attention

__all__ = ["langevin_states", "stochastic_attention"]
