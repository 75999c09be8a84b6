"""The paper's variational autoencoder with two-phase training (its appendix on baselines)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .training import device, layers, torch_or_remedy, train

Array = Any


class VAE:
    """Gaussian latent code, unit-norm output; first reconstruction only, then a linearly increasing KL term.

    hidden:    widths of the encoder's hidden layers; the decoder mirrors them
    kl_weight: weight of the KL term in the last epoch (1e-4; 1e-3 for the full-data runs)
    epochs:    number of epochs of each phase
    """

    def __init__(
        self,
        patterns: Array,
        rng: int,
        latent: int = 8,
        hidden: Sequence[int] = (256, 128),
        kl_weight: float = 1e-4,
        epochs: int = 2000,
        batch: int | None = None,
    ) -> None:
        torch = torch_or_remedy()
        self.latent = latent
        where = device()
        rows = torch.tensor(patterns, dtype=torch.float32, device=where)
        d = rows.shape[1]
        torch.manual_seed(rng)
        encoder = layers([d, *hidden, 2 * latent]).to(where)
        self.decoder = layers([latent, *reversed(hidden), d]).to(where)
        both = torch.nn.ModuleList([encoder, self.decoder])

        def loss(epoch: Any, x: Any) -> Any:
            mean, log_variance = encoder(x).chunk(2, dim=1)
            code = mean + (log_variance / 2).exp() * torch.randn_like(mean)
            error = ((x - self._decode(code)) ** 2).sum(1).mean()
            divergence = 0.5 * (mean**2 + log_variance.exp() - log_variance - 1).sum(1).mean()
            return error + kl_weight * ((epoch - epochs + 1) / epochs).clamp_min(0) * divergence

        self.loss = train(both, loss, rows, 2 * epochs, f"VAE, {len(rows)} rows", batch, (latent, kl_weight))

    def _decode(self, code: Any) -> Any:
        out = self.decoder(code)
        return out / out.norm(dim=1, keepdim=True).clamp_min(1e-12)

    def sample(self, n: int, rng: int) -> Array:
        """n decoded draws of the prior, with unit norm."""
        torch = torch_or_remedy()
        codes = torch.randn((n, self.latent), generator=torch.Generator().manual_seed(rng))
        with torch.no_grad():
            return self._decode(codes.to(next(self.decoder.parameters()).device)).cpu().double().numpy()
