"""Noise inside attention against temperature: continuations by a small GPT-2, compared at equal perplexity.

python -m examples.continuations [--train] [--quick] [--out out/continuations.png] [--seed 0]

The models have random weights; --train adds one that has read Python's own documentation, by characters, for a minute.
"""

from __future__ import annotations

import argparse
import platform
import sys
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
from stochattn._backend.progress import Progress
from stochattn.nn import stochastic

from ..pictures import checked, command
from .diversity import Measures, entropy, measure, remembered, tempered
from .figures import COMPARED_AT, PLAIN, matched_table, picture, step_table
from .model import VOCABULARY, cost_per_character, documentation, small_gpt2, train

SCALE, OTHER_SCALES = 0.2, (0.1, 0.3)  # initializer_range; at GPT-2's 0.02 all next tokens are about as likely
EXPLANATION = """\
Columns: sampling at T, plain; then noise in attention with greedy decoding, or
at T = 0.7, by the Langevin steps (alpha 0.01, or 0.1 if marked), at the
perplexity of the row. ppl: perplexity under the plain model at T = 1. distance:
share of positions at which two continuations of a prompt differ. 4-grams:
distinct ones, as a share. repeats: bigrams that their own continuation has had
before. Errors are standard errors over prompts; a dash: the settings tried do
not reach that perplexity. One step, prefix fixed: cost E_q[-log p] and entropy
of the next token's law q; the entropy of the tempered law of that cost, the
largest there is; what is lost, KL(q, tempered). Remembered: how much likelier
two next tokens agree if they share the noise of the prefix, in percent; 100:
always."""


@dataclass(frozen=True)
class Way:
    """A way to choose next tokens: a temperature (0: the likeliest token) and Langevin steps of the queries."""

    temperature: float = 0.0
    n_steps: int = 0
    noise: float = 1.0
    alpha: float = 0.01
    layers: tuple[int, ...] | None = None

    def attention(self, model: GPT2LMHeadModel, generator: torch.Generator) -> AbstractContextManager[Any]:
        """The context in which the model attends this way."""
        if not self.n_steps:
            return nullcontext()
        steps: dict[str, Any] = {"alpha": self.alpha, "noise": self.noise, "layers": self.layers}
        return stochastic(model, self.n_steps, generator=generator, **steps)

    def choose(self, logits: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """A token for each row of logits (rows, vocabulary)."""
        if not self.temperature:
            return logits.argmax(-1)
        return torch.multinomial((logits / self.temperature).softmax(-1), 1, generator=generator)[:, 0]


class Laws(NamedTuple):
    """Of the next token after each prompt, each (prompts,): see EXPLANATION."""

    cost: np.ndarray
    entropy: np.ndarray
    tempered: np.ndarray
    divergence: np.ndarray
    remembered: np.ndarray


@dataclass(frozen=True)
class Size:
    """How much is drawn."""

    prompts: int = 8
    continuations: int = 64
    length: int = 32
    prompt_length: int = 16
    contexts: int = 128
    draws: int = 16
    training_steps: int = 700


@dataclass(frozen=True)
class Study:
    """A model, its prompts (prompts, length), the ways to be tried, and what was found of them."""

    name: str
    model: GPT2LMHeadModel
    prompts: torch.Tensor
    families: dict[str, list[Way]]
    steps: dict[str, Way] = field(default_factory=dict)
    text: tuple[torch.Tensor, torch.Tensor] | None = None  # to train the model on, and to evaluate it on
    measured: dict[str, list[Measures]] = field(default_factory=dict)
    laws: dict[str, Laws] = field(default_factory=dict)
    note: str = ""

    @property
    def tempered_curve(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean cost and mean entropy of the next token after the prompts, for temperatures 0.05 to 1.25: each (60,)."""
        scores = plain_law(self.model, self.prompts) / np.geomspace(0.05, 1.25, 60)[:, None, None]
        q = np.exp(scores - scores.max(-1, keepdims=True))
        q /= q.sum(-1, keepdims=True)
        cost = -(q * plain_law(self.model, self.prompts)).sum(-1).mean(-1)
        return cost, np.array([np.mean([entropy(law) for law in laws]) for laws in q])


@torch.no_grad()
def plain_law(model: GPT2LMHeadModel, prompts: torch.Tensor) -> np.ndarray:
    """log p (prompts, vocabulary) of the next token under the model as it is."""
    return model(prompts).logits[:, -1].double().log_softmax(-1).numpy()


@torch.no_grad()
def continuations(
    model: GPT2LMHeadModel, prompts: torch.Tensor, way: Way, size: Size, generator: torch.Generator
) -> torch.Tensor:
    """Tokens (prompts, continuations, length); each continuation has noise of its own, that of its prompt included."""
    tokens = prompts.repeat_interleave(size.continuations, 0)
    chosen, cache = [], None
    with way.attention(model, generator):
        for _ in range(size.length):
            out = model(tokens, past_key_values=cache, use_cache=True)
            cache, tokens = out.past_key_values, way.choose(out.logits[:, -1], generator)[:, None]
            chosen.append(tokens)
    return torch.cat(chosen, 1).view(len(prompts), size.continuations, size.length)


@torch.no_grad()
def costs(model: GPT2LMHeadModel, prompts: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """−log p of tokens (prompts, continuations, length) after the prompts, under the model as it is."""
    length = tokens.shape[-1]
    whole = torch.cat([prompts.repeat_interleave(tokens.shape[1], 0), tokens.flatten(0, 1)], 1)
    log_p = model(whole).logits[:, -length - 1 : -1].log_softmax(-1)
    return -log_p.gather(-1, tokens.flatten(0, 1)[..., None]).view(tokens.shape)


@torch.no_grad()
def one_step(
    model: GPT2LMHeadModel, prompt: torch.Tensor, way: Way, size: Size, generator: torch.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The next token's law (vocabulary,) after a prompt (length,), and draws of it (contexts, draws).

    A context is the noise of all tokens but the last, as kept by keys and values; the last one's is new at every draw.
    """
    with way.attention(model, generator):
        cache = model(prompt[:-1].expand(size.contexts, -1), use_cache=True).past_key_values
        cache.batch_repeat_interleave(size.draws)
        last = prompt[-1:].expand(size.contexts * size.draws, 1)
        logits = model(last, past_key_values=cache, use_cache=True).logits[:, -1]
    tokens = way.choose(logits, generator)
    each = (logits.double() / way.temperature).softmax(-1) if way.temperature else one_hot(tokens, VOCABULARY).double()
    return each.mean(0).numpy(), tokens.view(size.contexts, size.draws).numpy()


def next_token_laws(study: Study, way: Way, size: Size, generator: torch.Generator) -> Laws:
    """What a way makes of the next token after each prompt, against the tempered law of the same cost."""
    rows = []
    for prompt, log_p in zip(study.prompts, plain_law(study.model, study.prompts), strict=True):
        q, tokens = one_step(study.model, prompt, way, size, generator)
        cost = float(-q @ log_p)
        log_best = tempered(log_p, cost)
        divergence = float(-q @ log_best) - entropy(q)
        rows.append((cost, entropy(q), entropy(np.exp(log_best)), divergence, remembered(tokens)))
    return Laws(*np.array(rows).T)


def planned_studies(options: argparse.Namespace, size: Size) -> list[Study]:
    """Random weights at three scales, and a model to be trained where asked."""
    noises = (0.25, 1.0, 2.0, 8.0) if options.quick else (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
    fewer = {PLAIN: [Way(T) for T in COMPARED_AT], "greedy, 10 steps": [Way(0.0, 10, noise) for noise in noises[1:]]}
    all_ways = {
        PLAIN: [Way(T) for T in (0.1, *COMPARED_AT, 1.25)],
        "greedy, 10 steps": [Way(0.0, 10, noise) for noise in noises],
        "greedy, 1 step": [Way(0.0, 1, noise) for noise in noises[1:]],
        "greedy, 10 of 0.1": [Way(0.0, 10, noise, 0.1) for noise in noises[1:-2]],
        "T = 0.7, 10 steps": [Way(0.7, 10, noise) for noise in noises[2:]],
    }
    steps = {f"greedy, noise {noise:g}": Way(0.0, 10, noise) for noise in (0.5, 1.0, 2.0, 4.0)}
    steps |= {"last layer only, noise 4": Way(0.0, 10, 4.0, layers=(-1,)), "T = 0.7, noise 2": Way(0.7, 10, 2.0)}
    generator = torch.Generator().manual_seed(options.seed)
    prompts = torch.randint(VOCABULARY, (size.prompts, size.prompt_length), generator=generator)
    studies = [Study(f"random weights, {SCALE}", small_gpt2(SCALE, options.seed), prompts, all_ways, steps)]
    for scale in () if options.quick else OTHER_SCALES:
        studies.append(Study(f"random weights, {scale}", small_gpt2(scale, options.seed), prompts, fewer))
    if options.train:
        text = documentation()
        starts = torch.randint(len(text[1]) - size.prompt_length, (size.prompts, 1), generator=generator)
        prompts = text[1][starts + torch.arange(size.prompt_length)]
        studies.append(Study("trained", small_gpt2(0.02, options.seed), prompts, all_ways, steps, text))
    return studies


def work(way: Way) -> float:
    """About how many seconds the continuations of a way take."""
    return 0.9 + 0.15 * way.n_steps


def planned_work(study: Study, size: Size) -> float:
    """About how many seconds a study takes, as `run` counts them."""
    ways = sum(work(way) for family in study.families.values() for way in family)
    return ways + 2.0 * len(study.steps) + 0.07 * size.training_steps * (study.text is not None)


def run(study: Study, size: Size, seed: int, advance: Callable[[float], None]) -> Study:
    """The study with everything measured; `advance` is called with the expected seconds of each piece of work."""
    note, generator = "", torch.Generator().manual_seed(seed + 1)
    if study.text is not None:
        train(study.model.train(), study.text[0], size.training_steps, seed, lambda: advance(0.07))
        with torch.no_grad():
            unread = cost_per_character(study.model.eval(), study.text[1], 200, generator)
        note = f"{study.name}: {unread:.2f} nats per character on held-out text"
    measured: dict[str, list[Measures]] = {family: [] for family in study.families}
    for family, ways in study.families.items():
        for way in ways:
            tokens = continuations(study.model, study.prompts, way, size, generator)
            measured[family].append(measure(costs(study.model, study.prompts, tokens).numpy(), tokens.numpy()))
            advance(work(way))
    laws = {}
    for step, way in study.steps.items():
        laws[step] = next_token_laws(study, way, size, generator)
        advance(2.0)
    return replace(study, note=note, measured=measured, laws=laws)


def main() -> None:
    parser = command("python -m examples.continuations", __doc__, "out/continuations.png")
    parser.add_argument("--train", action="store_true", help="add a model that is trained first, for a minute")
    options = checked(parser)
    torch.set_num_threads(1)  # tensors are small: more threads gain little, and lose much on a busy machine
    size = Size(6, 12, 10, 8, 16, 4, 20) if options.quick else Size()
    planned, done = planned_studies(options, size), 0.0
    console = Console()
    versions = f"stochattn {__version__}, torch {torch.__version__}, transformers {transformers.__version__}"
    console.print(f"{versions}, Python {platform.python_version()}; seed {options.seed}", highlight=False)
    console.print(f"{size.prompts} prompts, {size.continuations} continuations of {size.length} tokens each")
    with Progress(round(sum(planned_work(study, size) for study in planned)), "continuations") as progress:

        def advance(seconds: float) -> None:
            nonlocal done
            done += seconds
            progress.update(round(done))

        finished = [run(study, size, options.seed, advance) for study in planned]
    for study in finished:
        console.print(matched_table(study, options.seed))
        if study.laws:
            console.print(step_table(study))
        if study.note:
            console.print(study.note)
    console.print(EXPLANATION, highlight=False)
    picture([study for study in finished if study.laws], options.out)
    console.print(f"picture: {options.out}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print("interrupted: nothing was written", file=sys.stderr)
        raise SystemExit(130) from None
