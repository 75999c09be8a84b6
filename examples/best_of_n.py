"""Best of n answers of a small language model: noise in attention against temperature, on sums that can be checked.

python -m examples.best_of_n [--quick] [--seed 0]

The question, the measure and the rule below were fixed before any result was seen.

**Models.** Two GPT-2 of two layers, four heads and width 64, trained from random weights on texts such as 047+385=0432:
sums of two numbers of three digits, and products of two numbers of two digits. Training is short, so that many answers
are wrong. Problems to tune and to test were not in training.

**Question.** A program can check an answer, so a model may try n = 16 times and solves a problem if one answer is
right. How should the answers differ? *Temperature*: tokens are sampled at temperature T. *Noise*: each answer has its
own noise in attention (one Langevin step in every layer), and its tokens are the likeliest ones. *Both*: noise, and
tokens sampled at the temperature that is best alone.

**Measure and rule.** The share of problems that are solved. Settings have the highest share on 200 problems to tune;
400 others are the test. Noise, or both, wins if it solves more than temperature by more than two standard errors of the
paired difference, for sums and for products.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from rich import box
from rich.console import Console
from rich.table import Table
from torch.nn.functional import cross_entropy
from transformers import GPT2Config, GPT2LMHeadModel

from stochattn.nn import stochastic

from .options import add_seed, command, parsed

SYMBOLS = "0123456789+*="
N, TUNING, TEST = 16, 200, 400
TEMPERATURES = (0.3, 0.5, 0.7, 1.0, 1.4, 2.0)
NOISES = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
STEP = {"n_steps": 1, "alpha": 0.1}


@dataclass(frozen=True)
class Task:
    """Problems with an answer: a function of two numbers of some digits, written with some digits."""

    name: str
    symbol: str
    function: Callable[[np.ndarray, np.ndarray], np.ndarray]
    digits: int
    answer_digits: int
    n_steps: int  # of training

    def texts(self) -> torch.Tensor:
        """All problems with their answers as numbers of symbols, (problems, length)."""
        a, b = (x.ravel() for x in np.meshgrid(*[np.arange(10**self.digits)] * 2, indexing="ij"))
        fixed = [np.full(len(a), SYMBOLS.index(s)) for s in (self.symbol, "=")]
        answer = _digits(self.function(a, b), self.answer_digits)
        parts = (*_digits(a, self.digits), fixed[0], *_digits(b, self.digits), fixed[1], *answer)
        return torch.tensor(np.stack(parts, 1))


TASKS = (
    Task("sums", "+", np.add, 3, 4, 300),
    Task("products", "*", np.multiply, 2, 4, 1000),
)


def _digits(x: np.ndarray, n: int) -> list[np.ndarray]:
    return [x // 10 ** (n - 1 - i) % 10 for i in range(n)]


def trained(task: Task, texts: torch.Tensor, n_steps: int, seed: int) -> GPT2LMHeadModel:
    """A small GPT-2 that was trained on the answers of these texts (n, length)."""
    torch.manual_seed(seed)
    size = {"vocab_size": len(SYMBOLS), "n_positions": texts.shape[1], "n_embd": 64, "n_layer": 2, "n_head": 4}
    no_dropout = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "bos_token_id": None, "eos_token_id": None}
    model = GPT2LMHeadModel(GPT2Config(**size, **no_dropout))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=n_steps, pct_start=0.1)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(n_steps):
        x = texts[torch.randint(len(texts), (256,), generator=generator)]
        logits = model(x[:, :-1]).logits[:, -task.answer_digits :]
        loss = cross_entropy(logits.flatten(0, 1), x[:, -task.answer_digits :].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return model.eval()


@torch.inference_mode()
def solved(
    model: GPT2LMHeadModel, task: Task, texts: torch.Tensor, temperature: float, noise: float, n: int, seed: int
) -> np.ndarray:
    """Whether one of n answers to each problem is right, (problems,); temperature 0 takes the likeliest tokens."""
    generator = torch.Generator().manual_seed(seed)
    context = stochastic(model, **STEP, noise=noise, generator=generator) if noise else nullcontext()
    length = texts.shape[1] - task.answer_digits
    right = torch.zeros(len(texts), dtype=torch.bool)
    with context:
        for rows in torch.arange(len(texts)).split(100):
            x = texts[rows, :length].repeat_interleave(n, 0)
            for _ in range(task.answer_digits):
                logits = model(x).logits[:, -1]
                if temperature:
                    token = torch.multinomial((logits / temperature).softmax(-1), 1, generator=generator)
                else:
                    token = logits.argmax(-1, keepdim=True)
                x = torch.cat((x, token), 1)
            same = (x == texts[rows].repeat_interleave(n, 0)).all(1)
            right[rows] = same.unflatten(0, (len(rows), n)).any(1)
    return right.numpy()


def compare(task: Task, console: Console, quick: bool, seed: int) -> dict[str, bool]:
    """Print the shares of one task, and return which methods beat temperature."""
    texts = task.texts()
    texts = texts[torch.randperm(len(texts), generator=torch.Generator().manual_seed(seed))]
    n_tune, n_test, n, n_steps = (20, 40, 4, 30) if quick else (TUNING, TEST, N, task.n_steps)
    tuning, test, training = texts[:n_tune], texts[n_tune : n_tune + n_test], texts[TUNING + TEST :]
    began = time.process_time()
    model = trained(task, training, n_steps, seed)
    seconds = time.process_time() - began

    def share(temperature: float, noise: float) -> float:
        return float(solved(model, task, tuning, temperature, noise, n, seed).mean())

    best_t = max(TEMPERATURES, key=lambda t: share(t, 0.0))
    best_noise = max(NOISES, key=lambda s: share(0.0, s))
    best_both = max(NOISES, key=lambda s: share(best_t, s))
    settings = {"temperature": (best_t, 0.0), "noise": (0.0, best_noise), "both": (best_t, best_both)}
    found = {name: solved(model, task, test, *at, n, seed + 1) for name, at in settings.items()}
    once = solved(model, task, test, 0.0, 0.0, 1, seed).mean()
    table = Table(title=f"{task.name}: best of {n}, {n_test} problems", box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("", "T", "noise", "solved", "− temperature"):
        table.add_column(heading, justify="right" if heading else "left")
    table.add_row("one greedy answer", "0", "0", f"{once:.3f}", "")
    wins = {}
    for name, right in found.items():
        gap = right.astype(float) - found["temperature"]
        error = gap.std(ddof=1) / np.sqrt(len(gap))
        wins[name] = bool(gap.mean() > 2 * error)
        table.add_row(
            name,
            *(f"{x:g}" for x in settings[name]),
            f"{right.mean():.3f}",
            "" if name == "temperature" else f"{gap.mean():+.3f} ± {error:.3f}",
        )
    console.print(table)
    console.print(f"{n_steps:,} steps of training took {seconds:.0f} s of the processor.", highlight=False)
    return wins


def main() -> None:
    parser = command("best_of_n", __doc__, "models that learned little")
    add_seed(parser)
    options = parsed(parser, seed=0)
    console = Console(width=100)
    wins = [compare(task, console, options.quick, options.seed) for task in TASKS]
    for name in ("noise", "both"):
        console.print(f"{name} {'wins' if all(won[name] for won in wins) else 'does not win'} by the rule.")


if __name__ == "__main__":
    main()
