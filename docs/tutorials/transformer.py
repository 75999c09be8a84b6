r"""
Stochastic attention in a transformer
=====================================

Every attention layer is a Hopfield memory whose memories are its keys. `stochattn.nn` lets the queries take Langevin
steps before they are read out. This tutorial shows the steps alone, compares their noise with the formula, and puts
them into a small GPT-2, layer by layer. It needs the extra `transformers`.
"""

import matplotlib.pyplot as plt
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from stochattn.nn import HopfieldMemory, check, langevin_states, stochastic, stochastic_attention

torch.manual_seed(0)

# %%
# One layer, no steps: attention
# ------------------------------
# With `n_steps=0` the function is torch's own attention, to rounding.

q, k, v = torch.randn(3, 1, 4, 16, 32)  # (batch, heads, tokens, d) three times
ours = stochastic_attention(q, k, v, is_causal=True)
theirs = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
print("largest difference:", float((ours - theirs).abs().max()))

# %%
# How much noise do steps add?
# ----------------------------
# After n steps the noise in each coordinate has the variance :math:`\mathrm{noise}^2 (1 - (1 - \alpha)^{2n}) / (\beta
# (1 - \alpha/2))`, if attention itself is constant. Keys of zero make it so, and the measured spread follows the
# formula.

steps, alpha, d = [1, 2, 5, 10, 20, 50], 0.05, 32
beta = d**-0.5
measured, predicted = [], []
for n in steps:
    states = langevin_states(torch.zeros(500, 8, d), torch.zeros(500, 4, d), n_steps=n, alpha=alpha, seed=n)
    measured.append(float(states.std()))
    predicted.append(((1 - (1 - alpha) ** (2 * n)) / (beta * (1 - alpha / 2))) ** 0.5)
fig, axis = plt.subplots(figsize=(6, 2.6))
axis.plot(steps, predicted, label="formula")
axis.plot(steps, measured, "o", label="measured")
axis.set(title="Standard deviation of a coordinate", xlabel="steps")
axis.legend()
plt.show()

# %%
# In a model
# ----------
# `stochastic` is a context in which the chosen layers take steps; `check` says which layers can. The model here has
# random weights, so that nothing is downloaded; `GPT2LMHeadModel.from_pretrained(...)` works in the same way.

config = GPT2Config(n_layer=4, n_head=4, n_embd=64, vocab_size=100, bos_token_id=0, eos_token_id=0)
model = GPT2LMHeadModel(config).eval()
tokens = torch.randint(1, 100, (1, 24))
print(check(model))

# %%
# Which layers matter?
# --------------------
# The change of the predicted distribution, when one layer takes steps, says how much the output depends on the
# attention of that layer.


def divergence(layers, n_steps):
    """Mean KL divergence of predictions with steps from those without."""
    with torch.no_grad():
        calm = model(tokens).logits.log_softmax(-1)
        with stochastic(model, n_steps=n_steps, layers=layers, generator=torch.Generator().manual_seed(0)):
            noisy = torch.stack([model(tokens).logits.log_softmax(-1) for _ in range(8)])
    return float((calm.exp() * (calm - noisy)).sum(-1).mean())


fig, axis = plt.subplots(figsize=(6, 2.6))
for layer in range(4):
    axis.plot([1, 3, 10], [divergence([layer], n) for n in (1, 3, 10)], "o-", label=f"layer {layer}")
axis.set(title="Change of the predictions in nats", xlabel="steps")
axis.legend()
plt.show()

# %%
# Generation works inside the context too, and is repeatable with a generator:

with stochastic(model, n_steps=5, layers=[-1], generator=torch.Generator().manual_seed(0)):
    text = model.generate(tokens, max_new_tokens=8, do_sample=False, pad_token_id=0)
print(text[0, -8:].tolist())

# %%
# The law behind a layer
# ----------------------
# The keys of a layer define a mixture of Gaussians. `HopfieldMemory` has its energy, its normalised density and exact
# draws, and all of them have gradients.

memory = HopfieldMemory(torch.nn.functional.normalize(torch.randn(20, 8), dim=-1), beta=30.0)
new = memory.sample(1000)
print("mean log density of draws:", round(float(memory.log_density(new).mean()), 2))
print("of points far away:       ", round(float(memory.log_density(new + 2).mean()), 2))

# %%
# When is it useful? For diversity of text, the temperature of the softmax does better, and as a regulariser dropout
# does better: :doc:`/evidence/transformers` has the measurements. Steps are a probe of attention: they show which
# predictions depend on where a layer looks.
