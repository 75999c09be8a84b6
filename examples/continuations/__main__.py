"""Noise in attention compared with temperature: continuations by a small GPT-2 at equal perplexity.

python -m examples.continuations [--train] [--quick] [--out out/continuations.png] [--seed 0]

The models have random weights; --train adds a character model that is trained on the documentation of Python.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import torch
import transformers
from rich.console import Console
from torch.nn.functional import one_hot
from transformers import GPT2LMHeadModel

from stochattn import __version__
from stochattn._backend.console import Progress
from stochattn.nn import stochastic

from ..options import run_until_interrupted
from ..pictures import checked, command
from .diversity import Measures, context_agreement, entropy, measure, tempered
from .figures import COMPARED_AT, PLAIN, matched_table, picture, step_table
from .model import VOCABULARY, cost_per_character, documentation, small_gpt2, train

SCALE, OTHER_SCALES = (
    0.2,
    (0.1, 0.3),
)  # initializer_range; with 0.02, the value of GPT-2, all next tokens are about equally likely
EXPLANATION = """\
Columns: plain sampling at temperature T; then differences to it for noise in
attention with greedy decoding or at T = 0.7, by the number of Langevin steps
(alpha 0.01, or 0.1 if marked), at the perplexity of the row. ppl: perplexity
under the plain model at T = 1. distance: share of positions at which two
continuations of a prompt differ. 4-grams: share of distinct 4-grams. repeats:
share of bigrams that occurred before in the same continuation. Errors are
standard errors over prompts; a dash means that no setting has this perplexity.
One step, with a fixed prefix: cost E_q[-log p] and entropy of the distribution
q of the next token; the entropy of the tempered distribution with that cost,
which is the maximum; the loss KL(q, tempered). agreement: excess agreement of
two next tokens that share the noise of the prefix, in percent of its maximum."""


@dataclass(frozen=True)
class Decoding:
    """How next tokens are chosen: a temperature (0: greedy) and Langevin steps of the queries."""

    temperature: float = 0.0
    n_steps: int = 0
    noise: float = 1.0
    alpha: float = 0.01
    layers: tuple[int, ...] | None = None

    def attention(self, model: GPT2LMHeadModel, generator: torch.Generator) -> AbstractContextManager[Any]:
        """A context in which the attention of the model takes these steps."""
        if not self.n_steps:
            return nullcontext()
        steps: dict[str, Any] = {"alpha": self.alpha, "noise": self.noise, "layers": self.layers}
        return stochastic(model, self.n_steps, generator=generator, **steps)

    def choose(self, logits: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """A token for each row of logits (rows, vocabulary)."""
        if not self.temperature:
            return logits.argmax(-1)
        return torch.multinomial((logits / self.temperature).softmax(-1), 1, generator=generator)[:, 0]


class NextToken(NamedTuple):
    """Quantities of the next token after each prompt, each (prompts,); see EXPLANATION."""

    cost: np.ndarray
    entropy: np.ndarray
    tempered: np.ndarray
    divergence: np.ndarray
    agreement: np.ndarray


@dataclass(frozen=True)
class Size:
    """Numbers of prompts, continuations and draws."""

    prompts: int = 8
    continuations: int = 64
    length: int = 32
    prompt_length: int = 16
    contexts: int = 128
    draws: int = 16
    training_steps: int = 700


@dataclass(frozen=True)
class Study:
    """A model, its prompts (prompts, length), the decodings to compare, and the results."""

    name: str
    model: GPT2LMHeadModel
    prompts: torch.Tensor
    families: dict[str, list[Decoding]]
    steps: dict[str, Decoding] = field(default_factory=dict)
    text: tuple[torch.Tensor, torch.Tensor] | None = None  # training and held-out text
    measured: dict[str, list[Measures]] = field(default_factory=dict)
    next_tokens: dict[str, NextToken] = field(default_factory=dict)
    note: str = ""

    @property
    def tempered_curve(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean cost and mean entropy of the next token after the prompts, for temperatures 0.05 to 1.25: each (60,)."""
        scores = plain_log_p(self.model, self.prompts) / np.geomspace(0.05, 1.25, 60)[:, None, None]
        q = np.exp(scores - scores.max(-1, keepdims=True))
        q /= q.sum(-1, keepdims=True)
        cost = -(q * plain_log_p(self.model, self.prompts)).sum(-1).mean(-1)
        return cost, np.array([np.mean([entropy(row) for row in rows]) for rows in q])


@torch.no_grad()
def plain_log_p(model: GPT2LMHeadModel, prompts: torch.Tensor) -> np.ndarray:
    """log p (prompts, vocabulary) of the next token under the plain model."""
    return model(prompts).logits[:, -1].double().log_softmax(-1).numpy()


@torch.no_grad()
def continuations(
    model: GPT2LMHeadModel, prompts: torch.Tensor, decoding: Decoding, size: Size, generator: torch.Generator
) -> torch.Tensor:
    """Tokens (prompts, continuations, length); each continuation has independent noise, also in its prompt."""
    tokens = prompts.repeat_interleave(size.continuations, 0)
    chosen, cache = [], None
    with decoding.attention(model, generator):
        for _ in range(size.length):
            out = model(tokens, past_key_values=cache, use_cache=True)
            cache, tokens = out.past_key_values, decoding.choose(out.logits[:, -1], generator)[:, None]
            chosen.append(tokens)
    return torch.cat(chosen, 1).view(len(prompts), size.continuations, size.length)


@torch.no_grad()
def costs(model: GPT2LMHeadModel, prompts: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """−log p of tokens (prompts, continuations, length) after the prompts, under the plain model."""
    length = tokens.shape[-1]
    whole = torch.cat([prompts.repeat_interleave(tokens.shape[1], 0), tokens.flatten(0, 1)], 1)
    log_p = model(whole).logits[:, -length - 1 : -1].log_softmax(-1)
    return -log_p.gather(-1, tokens.flatten(0, 1)[..., None]).view(tokens.shape)


@torch.no_grad()
def one_step(
    model: GPT2LMHeadModel, prompt: torch.Tensor, decoding: Decoding, size: Size, generator: torch.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The distribution of the next token (vocabulary,) after a prompt (length,), and draws of it (contexts, draws).

    A context fixes the noise of all tokens except the last in its keys and values; the last token has new noise.
    """
    with decoding.attention(model, generator):
        cache = model(prompt[:-1].expand(size.contexts, -1), use_cache=True).past_key_values
        cache.batch_repeat_interleave(size.draws)
        last = prompt[-1:].expand(size.contexts * size.draws, 1)
        logits = model(last, past_key_values=cache, use_cache=True).logits[:, -1]
    tokens = decoding.choose(logits, generator)
    each = (
        (logits.double() / decoding.temperature).softmax(-1)
        if decoding.temperature
        else one_hot(tokens, VOCABULARY).double()
    )
    return each.mean(0).numpy(), tokens.view(size.contexts, size.draws).numpy()


def next_token(study: Study, decoding: Decoding, size: Size, generator: torch.Generator) -> NextToken:
    """The next token after each prompt, compared with the tempered distribution of the same cost."""
    rows = []
    for prompt, log_p in zip(study.prompts, plain_log_p(study.model, study.prompts), strict=True):
        q, tokens = one_step(study.model, prompt, decoding, size, generator)
        cost = float(-q @ log_p)
        log_best = tempered(log_p, cost)
        divergence = float(-q @ log_best) - entropy(q)
        rows.append((cost, entropy(q), entropy(np.exp(log_best)), divergence, context_agreement(tokens)))
    return NextToken(*np.array(rows).T)


def planned_studies(options: argparse.Namespace, size: Size) -> list[Study]:
    """Models with random weights at three scales, and with --train a model to be trained."""
    noises = (0.25, 1.0, 2.0, 8.0) if options.quick else (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
    few_decodings = {
        PLAIN: [Decoding(T) for T in COMPARED_AT],
        "greedy, 10 steps": [Decoding(0.0, 10, noise) for noise in noises[1:]],
    }
    all_decodings = {
        PLAIN: [Decoding(T) for T in (0.1, *COMPARED_AT, 1.25)],
        "greedy, 10 steps": [Decoding(0.0, 10, noise) for noise in noises],
        "greedy, 1 step": [Decoding(0.0, 1, noise) for noise in noises[1:]],
        "greedy, 10 of 0.1": [Decoding(0.0, 10, noise, 0.1) for noise in noises[1:-2]],
        "T = 0.7, 10 steps": [Decoding(0.7, 10, noise) for noise in noises[2:]],
    }
    steps = {f"greedy, noise {noise:g}": Decoding(0.0, 10, noise) for noise in (0.5, 1.0, 2.0, 4.0)}
    steps |= {
        "last layer only, noise 4": Decoding(0.0, 10, 4.0, layers=(-1,)),
        "T = 0.7, noise 2": Decoding(0.7, 10, 2.0),
    }
    generator = torch.Generator().manual_seed(options.seed)
    prompts = torch.randint(VOCABULARY, (size.prompts, size.prompt_length), generator=generator)
    studies = [Study(f"random weights, {SCALE}", small_gpt2(SCALE, options.seed), prompts, all_decodings, steps)]
    for scale in () if options.quick else OTHER_SCALES:
        studies.append(Study(f"random weights, {scale}", small_gpt2(scale, options.seed), prompts, few_decodings))
    if options.train:
        text = documentation()
        starts = torch.randint(len(text[1]) - size.prompt_length, (size.prompts, 1), generator=generator)
        prompts = text[1][starts + torch.arange(size.prompt_length)]
        studies.append(Study("trained", small_gpt2(0.02, options.seed), prompts, all_decodings, steps, text))
    return studies


def expected_seconds(decoding: Decoding) -> float:
    """Approximate seconds for the continuations of one decoding."""
    return 0.9 + 0.15 * decoding.n_steps


def total_seconds(study: Study, size: Size) -> float:
    """Approximate seconds of a study, as counted by `run`."""
    decodings = sum(expected_seconds(decoding) for family in study.families.values() for decoding in family)
    return decodings + 2.0 * len(study.steps) + 0.07 * size.training_steps * (study.text is not None)


def run(study: Study, size: Size, seed: int, advance: Callable[[float], None]) -> Study:
    """The study with its results; `advance` is called with the expected seconds of each part."""
    note, generator = "", torch.Generator().manual_seed(seed + 1)
    if study.text is not None:
        train(study.model.train(), study.text[0], size.training_steps, seed, lambda: advance(0.07))
        with torch.no_grad():
            held_out_cost = cost_per_character(study.model.eval(), study.text[1], 200, generator)
        note = f"{study.name}: {held_out_cost:.2f} nats per character on held-out text"
    measured: dict[str, list[Measures]] = {family: [] for family in study.families}
    for family, decodings in study.families.items():
        for decoding in decodings:
            tokens = continuations(study.model, study.prompts, decoding, size, generator)
            measured[family].append(measure(costs(study.model, study.prompts, tokens).numpy(), tokens.numpy()))
            advance(expected_seconds(decoding))
    next_tokens = {}
    for step, decoding in study.steps.items():
        next_tokens[step] = next_token(study, decoding, size, generator)
        advance(2.0)
    return replace(study, note=note, measured=measured, next_tokens=next_tokens)


def main() -> None:
    parser = command("continuations", __doc__, "out/continuations.png")
    parser.add_argument("--train", action="store_true", help="add a model that is trained for a minute")
    options = checked(parser)
    torch.set_num_threads(1)  # more threads are not faster for small tensors
    size = Size(6, 12, 10, 8, 16, 4, 20) if options.quick else Size()
    planned, done = planned_studies(options, size), 0.0
    console = Console()
    versions = f"stochattn {__version__}, torch {torch.__version__}, transformers {transformers.__version__}"
    console.print(f"{versions}, Python {platform.python_version()}; seed {options.seed}", highlight=False)
    console.print(f"{size.prompts} prompts, {size.continuations} continuations of {size.length} tokens each")
    with Progress(round(sum(total_seconds(study, size) for study in planned)), "continuations") as progress:

        def advance(seconds: float) -> None:
            nonlocal done
            done += seconds
            progress.update(round(done))

        finished = [run(study, size, options.seed, advance) for study in planned]
    for study in finished:
        console.print(matched_table(study, options.seed))
        if study.next_tokens:
            console.print(step_table(study))
        if study.note:
            console.print(study.note)
    console.print(EXPLANATION, highlight=False)
    picture([study for study in finished if study.next_tokens], options.out)
    console.print(f"picture: {options.out}")


if __name__ == "__main__":
    run_until_interrupted(main)
