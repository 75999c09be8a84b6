"""Multiple-instance learning of bit patterns, the task of the hopfield-layers notebook, with layers of stochattn.nn.

A bag has 16 instances of 8 bits. A positive bag contains one of 8 secret patterns, which no negative bag contains; a
network sees only whether a bag is positive. 1,536 bags for training and 512 to test, as in the notebook. If the package
hflayers is installed (the README of hopfield-layers installs it from GitHub), its layers are trained beside ours.

python examples/bit_patterns.py [--quick] [--seeds 3] [--epochs 30]
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Callable

import torch
from rich import box
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from stochattn.nn import Hopfield, HopfieldLayer, HopfieldPooling

INSTANCES, BITS, SIGNALS, ROWS = 16, 8, 8, 32
EXPLANATION = """\
accuracy: share of right answers for test bags, mean over seeds of weights and
order (the bags are the same); lowest: that of the worst seed. epochs to 99 %:
after which the test accuracy first reached 0.99, mean over the seeds that did.
HopfieldLayer: every instance is looked up in 32 learned rows. Pooling: learned
queries attend to the instances of a bag."""
Networks = dict[str, Callable[[], nn.Module]]


def bags(n: int, seed: int) -> tuple[Tensor, Tensor]:
    """n bags (n, 16, 8) of bits, and 1 for every second one, which has a secret pattern at a random place (n,)."""
    generator = torch.Generator().manual_seed(seed)
    numbers = 1 + torch.randperm(2**BITS - 1, generator=torch.Generator().manual_seed(43))  # the same secret always
    secret, others = numbers[:SIGNALS], numbers[SIGNALS:]
    instances = others[torch.randint(len(others), (n, INSTANCES), generator=generator)]
    place, which = (torch.randint(high, (n,), generator=generator) for high in (INSTANCES, SIGNALS))
    positive = torch.arange(n) % 2 == 1
    instances[positive, place[positive]] = secret[which[positive]]
    return (instances.unsqueeze(-1) >> torch.arange(BITS) & 1).float(), positive.float()


class AttentionPooling(nn.Module):
    """Pooling by torch's own attention: one learned query and layer norm, the width of the instances."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.query = nn.LayerNorm(BITS), nn.Parameter(0.02 * torch.randn(1, BITS))
        self.attention = nn.MultiheadAttention(BITS, 1, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        """What the query reads from instances (n, 16, 8): (n, 8)."""
        x = self.norm(x)
        return self.attention(self.query.expand(len(x), -1, -1), x, x, need_weights=False)[0].flatten(1)


def networks() -> Networks:
    """Functions that make each network; the first four end in one linear map of what the layer returns."""

    def lookup() -> HopfieldLayer:
        return HopfieldLayer(Hopfield(BITS, head_dim=32, beta=1.0), ROWS, values=True)

    def flat(layer: nn.Module) -> nn.Module:
        return nn.Sequential(layer, nn.Flatten(), nn.Linear(INSTANCES * BITS, 1))

    made: Networks = {
        "Hopfield": lambda: flat(Hopfield(BITS)),
        "HopfieldPooling": lambda: nn.Sequential(HopfieldPooling(BITS), nn.Linear(BITS, 1)),
        "HopfieldLayer": lambda: flat(lookup()),
        "torch: attention pooling": lambda: nn.Sequential(AttentionPooling(), nn.Linear(BITS, 1)),
        "HopfieldLayer, HopfieldPooling": lambda: nn.Sequential(lookup(), HopfieldPooling(BITS), nn.Linear(BITS, 1)),
        "torch: MLP, attention pooling": lambda: nn.Sequential(
            nn.Linear(BITS, 64), nn.ReLU(), nn.Linear(64, BITS), AttentionPooling(), nn.Linear(BITS, 1)
        ),
    }
    return made | _theirs(flat)


def _theirs(flat: Callable[[nn.Module], nn.Module]) -> Networks:
    """The same networks with the layers of hopfield-layers, if that is installed."""
    if importlib.util.find_spec("hflayers") is None:
        return {}
    import hflayers

    size = {"input_size": BITS}
    return {
        "hflayers: Hopfield": lambda: flat(hflayers.Hopfield(**size)),
        "hflayers: HopfieldPooling": lambda: nn.Sequential(hflayers.HopfieldPooling(**size), nn.Linear(BITS, 1)),
        "hflayers: HopfieldLayer": lambda: flat(
            hflayers.HopfieldLayer(**size, hidden_size=32, scaling=1.0, quantity=ROWS, lookup_weights_as_separated=True)
        ),
    }


def train(network: nn.Module, n_epochs: int, seed: int, n_bags: int) -> list[float]:
    """Accuracy on the test bags after every epoch of AdamW with batches of 32 bags."""
    x, y = bags(n_bags, 44)
    test, answers = bags(512, 45)
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3)
    generator, accuracies = torch.Generator().manual_seed(seed), []
    for _ in range(n_epochs):
        for rows in torch.randperm(n_bags, generator=generator).split(32):
            loss = binary_cross_entropy_with_logits(network(x[rows])[:, 0], y[rows])
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
        with torch.no_grad():
            accuracies.append(float(((network(test)[:, 0] > 0) == (answers > 0)).float().mean()))
    return accuracies


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a run of a few seconds that checks the example")
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds, 1 or more (default 3)")
    parser.add_argument("--epochs", type=int, default=30, help="passes over the training bags, 1 or more (default 30)")
    options = parser.parse_args()
    for name in ("seeds", "epochs"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be 1 or more; got {getattr(options, name)}")
    n_seeds, n_epochs, n_bags = (1, 2, 256) if options.quick else (options.seeds, options.epochs, 1536)
    console = Console()
    table = Table(title=f"Bit patterns: {n_bags:,} bags, {n_epochs} epochs", box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("network", "parameters", "accuracy", "lowest", "epochs to 99 %", "seconds"):
        table.add_column(heading, justify="left" if heading == "network" else "right")
    for name, make in networks().items():
        began, curves = time.process_time(), []
        for seed in range(n_seeds):
            torch.manual_seed(seed)
            network = make()
            curves.append(train(network, n_epochs, seed, n_bags))
        last = [curve[-1] for curve in curves]
        reached = [1 + next(i for i, a in enumerate(curve) if a >= 0.99) for curve in curves if max(curve) >= 0.99]
        table.add_row(
            name,
            f"{sum(p.numel() for p in network.parameters()):,}",
            f"{sum(last) / len(last):.3f}",
            f"{min(last):.3f}",
            f"{sum(reached) / len(reached):.0f}" if reached else "-",
            f"{(time.process_time() - began) / n_seeds:.0f}",
        )
    console.print(table)
    console.print(EXPLANATION)
    if importlib.util.find_spec("hflayers") is None:
        console.print("hopfield-layers is not installed, so that torch's own attention is the comparison.")


if __name__ == "__main__":
    main()
