"""
Stochastic attention in a transformer
=====================================

An attention layer is a memory whose rows are its keys, so its queries can take Langevin steps too. You will train a
small vision transformer, add such steps without changing a weight, compare the noise with its formula, and test
whether repeated passes recognize wrong answers.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from torch import nn
from torch.nn import functional as F

from stochattn.nn import check, langevin_states, stochastic

torch.manual_seed(0)

# %%
# A small transformer
# -------------------
# The eight rows of a digit are eight tokens. Any module that calls `scaled_dot_product_attention` can take steps.


class Block(nn.Module):
    """Attention over tokens, and a network for each token."""

    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.norms = nn.ModuleList([nn.LayerNorm(d), nn.LayerNorm(d)])
        self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(n, tokens, d) -> (n, tokens, d)."""
        q, k, v = self.qkv(self.norms[0](x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norms[1](x))


class Transformer(nn.Module):
    """Images (n, 8, 8) -> logits (n, 10)."""

    def __init__(self, d: int = 32) -> None:
        super().__init__()
        self.embed, self.place = nn.Linear(8, d), nn.Parameter(0.1 * torch.randn(8, d))
        self.blocks, self.read = nn.Sequential(Block(d, 4), Block(d, 4)), nn.Linear(d, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of the ten digits."""
        return self.read(self.blocks(self.embed(x) + self.place).mean(1))


images, labels = load_digits(return_X_y=True)
x, y = torch.tensor(images, dtype=torch.float32).reshape(-1, 8, 8) / 16, torch.tensor(labels)
model, test = Transformer(), slice(400, 1000)
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
for _ in range(30):
    for rows in torch.randperm(400).split(100):
        optimizer.zero_grad()
        F.cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()
model.eval()
print(check(model))

# %%
# Steps without training
# ----------------------
# In the context, each query takes Langevin steps among the keys before the layer reads its values. Without steps,
# nothing changes. After n steps of size alpha, (1 - alpha)^n of the query is left.

N_STEPS, alphas = 5, np.array([0.002, 0.02, 0.2])
with torch.no_grad():
    plain = model(x[test])
    with stochastic(model, n_steps=0):
        print("no step: the same logits:", torch.allclose(plain, model(x[test]), atol=1e-5))
    passes = []
    for alpha in alphas:
        with stochastic(model, n_steps=N_STEPS, alpha=float(alpha), generator=torch.Generator().manual_seed(0)):
            passes.append(torch.stack([model(x[test]).softmax(-1) for _ in range(10)]))  # (10, n, classes)
print(f"accuracy without steps {(plain.argmax(-1) == y[test]).float().mean():.1%}")
for alpha, p in zip(alphas, passes, strict=True):
    one, mean = ((q.argmax(-1) == y[test]).float().mean() for q in (p[0], p.mean(0)))
    print(f"alpha {alpha:5.3f}: one pass {one:.1%}, mean of ten passes {mean:.1%}")

# %%
# How large the noise is
# ----------------------
# With queries and keys at zero nothing but noise is left, and its variance has a closed form, with beta = 1/√d.

states = langevin_states(torch.zeros(1, 20_000, 8), torch.zeros(1, 4, 8), n_steps=N_STEPS, alpha=0.1, seed=0)
print(f"variance {states.var():.3f}, formula {(1 - 0.9 ** (2 * N_STEPS)) / (8**-0.5 * (1 - 0.05)):.3f}")

# %%
# Uncertainty
# -----------
# Where passes disagree, the answer depends on what the layers attend to. Is a wrong answer recognized by that? An
# AUROC of 1 is perfect and 0.5 is chance. The usual measure is the entropy of the probabilities of one plain pass.


def entropy(p: torch.Tensor) -> torch.Tensor:
    """Entropy of probabilities (..., classes) in nats."""
    return -(p * p.clamp_min(1e-12).log()).sum(-1)


wrong = (plain.argmax(-1) != y[test]).numpy()
usual = roc_auc_score(wrong, entropy(plain.softmax(-1)))
disagreement = [roc_auc_score(wrong, entropy(p.mean(0)) - entropy(p).mean(0)) for p in passes]
print(f"{wrong.sum()} wrong answers; AUROC of the entropy {usual:.3f}, of disagreement {np.round(disagreement, 3)}")
plt.semilogx(alphas, disagreement, "o-", label="disagreement of ten passes")
plt.axhline(usual, color="C1", linestyle="--", label="entropy of one plain pass")
plt.gca().set(title="Recognizing wrong answers", xlabel="step size alpha", ylabel="AUROC")
plt.legend()
plt.show()

# %%
# Disagreement recognizes wrong answers nearly as well as the entropy of one plain pass, which costs a tenth and needs
# no steps. Larger steps destroy the answers themselves. For a network like this one, use the entropy; steps in
# attention measure something else, namely how much an answer depends on the attention of the model.
