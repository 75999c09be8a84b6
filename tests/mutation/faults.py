"""Known faults, which the tests must notice: `python tests/mutate.py --faults [NAME]` plants them one at a time."""

# ruff: noqa: E501  (a fault a line reads best)

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from .changes import Mutant


class Fault(NamedTuple):
    name: str
    file: str
    right: str
    wrong: str
    tests: str = "test_law.py"

    def mutant(self, root: Path) -> Mutant:
        """The change of the source; the right text must stand in it exactly once."""
        file = self.file if self.file.startswith("paper/") else f"src/stochattn/{self.file}"
        source = (root / file).read_text(encoding="utf-8")
        if source.count(self.right) != 1:
            raise SystemExit(f"{self.name}: its text stands {source.count(self.right)} times in {self.file}, not once")
        begin = source.index(self.right)
        line = source.count("\n", 0, begin) + 1
        return Mutant(file, range(line, line + 1), begin, begin + len(self.right), self.wrong, source)


FAULTS = [
    Fault("noise √(α/β) (ULA)", "samplers/ula.py", "xi + 0, math.sqrt(2 * alpha / beta)", "xi + 0, math.sqrt(alpha / beta)"),
    Fault("noise √(2α)/β (ULA)", "samplers/ula.py", "xi + 0, math.sqrt(2 * alpha / beta)", "xi + 0, math.sqrt(2 * alpha) / beta"),
    Fault("noise √(α/β) (MALA)", "samplers/mala.py", "  scale = math.sqrt(2 * alpha / beta)", "  scale = math.sqrt(alpha / beta)"),
    Fault("noise √(2α)/β (MALA)", "samplers/mala.py", "  scale = math.sqrt(2 * alpha / beta)", "  scale = math.sqrt(2 * alpha) / beta"),
    Fault("noise √(α/β) outside the span", "samplers/ula.py", "1 - self.alpha, 2 * self.alpha / beta", "1 - self.alpha, self.alpha / beta"),
    Fault("noise 1/β instead of 1/√β (exact)", "samplers/exact.py", "samples.shape[1], 1 / math.sqrt(beta)", "samples.shape[1], 1 / beta"),
    Fault("β missing from the logits (chains)", "samplers/base.py", "row_product(transposed(self.patterns) * beta)", "row_product(transposed(self.patterns) * 1.0)"),
    Fault(
        "β missing from the logits (energy)",
        "core/energy.py",
        "return beta * _overlaps(xi, bank)",
        "return 1.0 * _overlaps(xi, bank)",
        "test_energy.py",
    ),
    Fault(
        "subset of the patterns but not of the weights",
        "core/conditioning.py",
        "    log_r[~selected] = -np.inf",
        "    bank = MemoryBank(bank.patterns * like(selected[:, None] * 1.0, bank.patterns), bank.log_r, bank.values)",
    ),
    Fault(
        "exp(β‖m‖²/2) left out of the weights",
        "core/energy.py",
        "raw = require_bank(bank).log_r + bank.check_beta(beta) / 2 * bank.norms_squared",
        "raw = require_bank(bank).log_r + 0 * bank.norms_squared",
    ),
    Fault("multiplicities left out of the chains", "samplers/base.py", "bank.log_r if to_numpy(bank.log_r).any() else None", "None"),
    Fault(
        "MALA without the asymmetry term",
        "samplers/mala.py",
        "log_ratio -= beta / 2 * row_dot(move, state.attended + new.attended)[:, None]",
        "log_ratio = self.attention.evaluate(new.xi, beta)[1] - self.attention.evaluate(state.xi, beta)[1] - beta / 2 * (norms_squared(new.xi) - norms_squared(state.xi))[:, None]",
    ),
    Fault(
        "MALA with the asymmetry term's sign turned",
        "samplers/mala.py",
        "log_ratio -= beta / 2 * row_dot(move, state.attended + new.attended)[:, None]",
        "log_ratio = 2 * (self.attention.evaluate(new.xi, beta)[1] - self.attention.evaluate(state.xi, beta)[1] - beta / 2 * (norms_squared(new.xi) - norms_squared(state.xi))[:, None])"
        " - (new.log_potential - state.log_potential - beta / 2 * row_dot(move, state.attended + new.attended)[:, None])",
    ),
    Fault("MALA accepts everything", "samplers/mala.py", "-noise.exponential() < log_ratio", "log_ratio == log_ratio"),
    Fault(
        "MALA's ratio without the complement", "samplers/mala.py", "slope += complement.length_squared", "slope += 0.0"
    ),
    Fault(
        "the complement constant between kept states (ULA)",
        "samplers/complement.py",
        "return GaussianComplement(self.origin, total, spread)",
        "return self",
    ),
    Fault(
        "the complement drawn independently for each kept state (ULA)",
        "samplers/complement.py",
        "v = self.decay * self.origin + math.sqrt(self.variance) * normals(space.d)",
        "v = math.sqrt(self.variance / (1 - self.decay**2)) * normals(space.d)",
    ),
    Fault(
        "the complement constant between kept states (MALA)",
        "samplers/mala.py",
        "complement = state.complement.propose(noise, self.space.codimension, 1 - alpha, scale)",
        "complement = state.complement",
    ),
    Fault(
        "the complement not projected out of the span",
        "samplers/complement.py",
        "return v + space.embed(u - space.project(v)), GaussianComplement(v)",
        "return v + space.embed(u), GaussianComplement(v)",
    ),
    Fault("underdamped: noise √(1 − c) instead of √(1 − c²)", "samplers/underdamped.py", "(1 - self.decay**2) / beta", "(1 - self.decay) / beta"),
    Fault("underdamped: momentum not damped", "samplers/underdamped.py", "p *= self.decay", "p *= 1.0"),
    Fault("underdamped: one half kick left out", "samplers/underdamped.py", "            p -= half * gradient", "            pass"),
    Fault("underdamped: no noise outside the span", "samplers/underdamped.py", "self._oscillate(0.0, 0.0, self._noise_scale(beta))", "(0.0, 0.0)"),
    Fault("underdamped: covariance of x and p left out", "samplers/complement.py", "shared = self.covariance / scale if scale else 0.0", "shared = 0.0"),
    Fault("underdamped: gradient at another beta", "samplers/underdamped.py", "if beta != state.beta:  # the schedule moved on\n", "if False:\n"),
    Fault(
        "streams shared between chains",
        "_backend/random.py",
        "list(generators(self.streams.seed, self.purpose, chains, (epoch,)))",
        "[generator(self.streams.seed, self.purpose, 0, epoch) for _ in chains]",
    ),
    Fault(
        "streams shared between chains, at kept states",
        "_backend/random.py",
        "generators(self.seed, purpose, chains, key)",
        "(generator(self.seed, purpose, 0, *key) for _ in chains)",
        "test_run.py",
    ),
    Fault(
        "streams repeat at every epoch",
        "_backend/random.py",
        "generators(self.streams.seed, self.purpose, chains, (epoch,))",
        "generators(self.streams.seed, self.purpose, chains, (0,))",
        "test_random.py",
    ),
    Fault("streams of many chains by another hash", "_backend/seeding.py", "hashed = POOL * (seed_words + 1)", "hashed = POOL * seed_words", "test_random.py"),
    Fault("log-sum-exp without the shift (chains)", "_backend/products.py", "np.subtract(logits, top, out=logits)\n    np.maximum", "top = 0 * top\n    np.maximum", "test_run.py"),
    Fault(
        "log-sum-exp without the shift (energy)",
        "_backend/products.py",
        "    top = xp.where(xp.isfinite(top), top, xp.zeros_like(top))",
        "    top = xp.zeros_like(top)",
        "test_energy.py",
    ),
    Fault(
        "softmax without the shift (energy)",
        "_backend/products.py",
        "top = xp.amax(logits, axis=-1, keepdims=True)\n    weights",
        "top = 0 * xp.amax(logits, axis=-1, keepdims=True)\n    weights",
        "test_energy.py",
    ),
    Fault(
        "products that depend on the other rows",
        "_backend/products.py",
        "return lambda x: (x.reshape(-1, min(len(x), rows), x.shape[-1]) @ matrix).reshape(len(x), -1)",
        "return lambda x: x @ matrix",
        "test_run.py",
    ),
    Fault(
        "conditioning without β", "core/conditioning.py", "bank.log_r + bank.check_beta(beta) * overlaps", "bank.log_r + overlaps", "test_conditioning.py"
    ),
    Fault("MALA not evaluated anew when β moves on", "samplers/mala.py", "if beta != state.beta:  # the schedule moved on, or", "if False:  # the schedule moved on, or"),
    Fault("acceptance counted twice over", "samplers/runner.py", "self.n_rejected += n_rejected", "self.n_rejected += 2 * n_rejected"),
    Fault(
        "the complement's new direction not orthogonal to its old one",
        "samplers/complement.py",
        "sideways = sideways - (sideways * self.direction).sum(-1)[:, None] * self.direction",
        "pass",
    ),
    Fault(
        "the complement's first direction arbitrary",
        "samplers/complement.py",
        "        v /= or_one(length)",
        "        v = space.outside(noise.at_kept(space.d)); v /= or_one(_lengths(v))",
        "test_run.py",
    ),
    Fault(
        "starts not scattered",
        "samplers/start.py",
        "    x *= spread",
        "    x *= 0.0",
        "test_run.py",
    ),
    Fault(
        "half the noise in float32",
        "_backend/random.py",
        "        return step, step + steps, np",
        "        block *= 0.5 if self.dtype == np.float32 else 1.0\n        return step, step + steps, np",
    ),
    Fault("arrays of objects are read on", "_backend/array_files.py", "if header.dtype.hasobject:", "if False:", "test_array_files.py"),
    Fault("files written in place", "samplers/draws.py", 'with whole_file(Path(path), check) as unfinished, unfinished.open("xb") as file:', 'with Path(path).open("wb") as file:', "test_run.py"),
    Fault("float32's own rank", "storage/blockwise.py", "return to_numpy(rows).astype(np.float64)", "return to_numpy(rows)", "test_memory.py"),
    Fault("β chosen for the law without equal weights", "core/likelihood.py", "return self.log_r if self.equal_weights else self.log_r + beta", "return self.log_r + beta", "test_sklearn.py"),
    Fault("paper: tolerance of five errors", "paper/results.py", "TOLERANCE_IN_ERRORS = 3", "TOLERANCE_IN_ERRORS = 5", "reproduction/test_results.py"),
    Fault("paper: the band is passed over", "paper/results.py", "if self.published.band is not None:", "if False:", "reproduction/test_results.py"),
    Fault("paper: the mean's error taken for one run's", "paper/results.py", "if self.measured.spread is None else self.measured.spread", "", "reproduction/test_results.py"),
    Fault("paper: other states kept", "paper/protocol.py", "KEPT = (2000, 2700,", "KEPT = (2000, 2600,", "reproduction/test_protocol.py"),
    Fault("paper: starts counted from 0", "paper/protocol.py", "dtype=int) - 1", "dtype=int)", "reproduction/test_protocol.py"),
    Fault("paper: ULA's bias forgotten", "paper/closed_form.py", "1 / (beta * (1 - alpha / 2))", "1 / beta", "reproduction/test_protocol.py"),
    Fault("paper: acceptance without its quadratic terms", "paper/closed_form.py", "8 * a * (1 - a) ** 2 + 8 * a * a", "8 * a", "reproduction/test_protocol.py"),
    Fault("paper: a wrong checksum let through", "paper/sources.py", "if listed == found:", "if listed:", "reproduction/test_data.py"),
    Fault("paper: a result without its pictures taken for whole", "paper/writing.py", "return content if whole else None", "return content", "reproduction/test_results.py"),
    Fault("paper: an old record left over new files", "paper/writing.py", "(folder / RECORD).unlink(missing_ok=True)", "pass", "reproduction/test_results.py"),
    Fault("paper: imported code does not count", "paper/runner.py", "_own_files(candidate, seen)", "pass", "reproduction/test_runner.py"),
    Fault("paper: other data taken for the same", "paper/runner.py", "data.source(name).sha256 == digest", "data.source(name).sha256", "reproduction/test_runner.py"),
    Fault("paper: training without its seed", "paper/baselines/vae.py", "torch.manual_seed(rng)", "pass", "reproduction/test_baselines.py"),
    Fault("paper: KL weight at full from the start", "paper/baselines/vae.py", ".clamp_min(0)", ".abs()", "reproduction/test_baselines.py"),
    Fault("paper: no KL term", "paper/baselines/vae.py", "* divergence", "* 0 * divergence", "reproduction/test_baselines.py"),
    Fault("paper: stored gaps count as matches", "paper/family.py", " & (stored[None] != GAP)", "", "reproduction/test_family.py"),
    Fault("kernels: noise not scaled", "generators/neighborhoods.py", "np.linalg.cholesky(width.noise * mixed)", "np.linalg.cholesky(mixed)", "test_covariance.py"),
    Fault("kernels: columns not scaled", "generators/neighborhoods.py", "Kernels(mean + means * scale, scale[:, None] * roots, np.log(w))", "Kernels(mean + means, roots, np.log(w))", "test_covariance.py"),
    Fault("shrinkage: rows not left out", "generators/shrinkage.py", "room = np.maximum(1 - (1 - shrinkage) / (n - 1) * lengths, 1e-12)", "room = np.ones(n)", "test_covariance.py"),
    Fault("tables: values of a column always in the middle of their intervals", "generators/marginals.py", "(knots + shifts[i]) / size", "(knots + 0.5) / size", "test_marginals.py"),
    Fault("tables: classes of one column only", "data/tables/class_fit.py", "while len(found) < MAX_CLASS_COLUMNS:", "while len(found) < 1:", "data/test_table_classes.py"),
    Fault("kernels: observation forgotten in draws", "generators/covariance.py", "gain = np.linalg.solve(half @ half.T, half @ root.T)", "gain = 0 * np.linalg.solve(half @ half.T, half @ root.T)", "test_covariance.py"),
    Fault("tables: offsets of categories left out", "generators/covariance.py", "self.space.features(z) + self.offsets", "self.space.features(z)", "data/test_table_generators.py"),
    Fault("tables: weights left out of the kernels", "generators/covariance.py", "MemoryBank(space.stored, np.log(weights))", "MemoryBank(space.stored)", "data/test_table_generators.py"),
    Fault("illumination: counts in full", "generators/window_attention.py", "ILLUMINATION_WEIGHT = 0.3", "ILLUMINATION_WEIGHT = 1.0", "test_illumination.py"),
    Fault("illumination: not made smooth", "generators/window_attention.py", "return self._project(illumination) + detail - self._project(detail)", "return illumination + detail", "test_illumination.py"),
    Fault("illumination: never used by the generator", "generators/patches.py", "self.radius, illumination=illumination)", "self.radius, illumination=False)", "test_illumination.py"),
    Fault("returns: windows stop at the end of a run", "generators/window_coordinates.py", "% run", "% (10 * run)", "data/test_returns_blocks.py"),
    Fault("returns: windows bunch at the beginning", "generators/window_coordinates.py", "np.arange(n) * run // n", "np.arange(n) * self.step", "data/test_returns_blocks.py"),
    Fault("returns: the market turned with the rest", "generators/window_coordinates.py", "z[:, 0] = self.scores(beta, days, noise[:, 0])", "z[:, 0] = np.abs(self.scores(beta, days, noise[:, 0])) * np.sign(noise[:, 0])", "data/test_market.py"),
    Fault("returns: the market not jittered", "generators/window_coordinates.py", "np.exp(jitter * noise - jitter**2)", "np.exp(0 * noise)", "data/test_returns_blocks.py"),
    Fault("returns: noise without the volatility around days", "generators/window_coordinates.py", " * self.each.surroundings[days]", "", "data/test_market.py"),
    Fault("returns: days not moved to their market", "generators/windows.py", "coordinates.with_score(new, z[:, 0])", "new", "data/test_market.py"),
    Fault("returns: a day counts in the volatility around it", "generators/market.py", "sums[t] += total\n", "sums[t] += total + squares[t]\n", "data/test_market.py"),
    Fault("returns: the wilder market", "generators/market.py", "chosen = max(directions", "chosen = min(directions", "data/test_market.py"),
    Fault("returns: links forget the weights", "generators/window_links.py", "np.cumsum(shares[order])", "np.cumsum(np.full(len(order), 1 / len(order)))", "data/test_paths.py"),
    Fault("returns: ranks pile up at the ends", "generators/window_links.py", "np.where(u > 1, 2 - u, u)", "u", "data/test_paths.py"),
    Fault("returns: days compared unscaled", "data/returns/kind.py", "/ np.where(scale > 0, scale, 1.0)", "/ 1.0", "data/test_returns_blocks.py"),
    Fault("split-half: the other half looked at", "evaluation/split_half.py", "half, described = replace(synth.refit(indices), resolved=resolved), synth.describe()", "half, described = replace(synth.refit(np.setdiff1d(synth.kept, indices)), resolved=resolved), synth.describe()", "evaluation/test_split_half.py"),
    Fault("report: train proximity left out of the verdict", "report/verdict.py", 'yield "train_proximity", fair(', 'yield "", fair(', "report/test_verdict.py"),
    Fault("report: ideal and copies swapped", "report/sections.py", "new, number(copies, 2), number(getattr(IDEAL, field))", "new, number(getattr(IDEAL, field)), number(copies, 2)", "report/test_report.py"),
    Fault("drawing: blocks of any size", "data/drawing.py", "max(min(most, most_numbers // numbers, declared), 1)", "most", "data/test_all_kinds.py"),
    Fault("kernels: products of the high halves alone", "kernels/programs.py", "overlaps * (1.0 / 2048.0))\n", "overlaps * 0.0)\n", "test_kernels.py"),
    Fault("kernels: weights rounded to halves", "kernels/programs.py", "attended = tl.dot(a, high, attended * (1.0 / 2048.0)) / total[:, None]", "attended = tl.dot(a, high, tl.dot(a, low) * (1.0 / 2048.0)) / total[:, None]", "test_kernels.py"),
    Fault("kernels: the running sum not scaled down", "kernels/programs.py", "total = total * shrunk + tl.sum(weights, 1)", "total = total + tl.sum(weights, 1)", "test_kernels.py"),
    Fault("kernels: noise of another step", "kernels/programs.py", "noise = normals(key, chain, first_step + s, 0,", "noise = normals(key, chain, first_step + s + 1, 0,", "test_kernels.py"),
    Fault("kernels: the complement left out of MALA's ratio", "kernels/programs.py", "(tl.sum(slope * slope, 1) + outside)", "(tl.sum(slope * slope, 1) + 0 * outside)", "test_kernels.py"),
    Fault("kernels: chi-square accepts everything", "kernels/numbers.py", "right = (x > -1.0) & (log(uniform(c, TYPE), FAST) < shape * log_acceptance(x))", "right = x == x", "test_kernels.py"),
    Fault("kernels: the same memory drawn by all", "kernels/numbers.py", "words(key, first + rows, none + 1, none, DRAW)", "words(key, none, none + 1, none, DRAW)", "test_kernels.py"),
    Fault("device: multipliers of Philox swapped", "kernels/philox.py", "MULTIPLIERS = 0xD2511F53, 0xCD9E8D57", "MULTIPLIERS = 0xCD9E8D57, 0xD2511F53", "test_philox.py"),
    Fault("device: gamma without its rejection", "kernels/philox.py", "right = waiting & (x > -1) & (_uniform(c, self.reference).log() < shape * _log_acceptance(x))", "right = waiting", "test_philox.py"),
    Fault("device: the complement relaxes one step only", "samplers/ula.py", "2 * self.alpha / beta, steps)", "2 * self.alpha / beta)", "test_kernels.py"),
    Fault("device: steps at another beta taken along", "samplers/plan.py", "if isinstance(self.beta, float) or most == 1:", "if True:", "test_run.py"),
    Fault("device: a full device loses what was kept", "samplers/runner.py", "if not chains.steps:", "if True:", "test_philox.py"),
    Fault("blocks of rows: 32 where padded to 8", "_backend/random.py", "block = rows_in_block(reference)", "block = 8"),
    Fault("blockwise: earlier sums not scaled down", "storage/blockwise.py", "total = total * decay + weights", "total = total + weights", "test_blockwise.py"),
    Fault("blockwise: the readout not scaled down", "storage/blockwise.py", "readout = readout * decay + read", "readout = readout + read", "test_blockwise.py"),
    Fault("mapped: rows in another order", "storage/mapped.py", "rows[order[block]] = patterns[indices[order[block]]]", "rows[block] = patterns[indices[order[block]]]", "test_mapped.py"),
    Fault("mapped: a truncated file accepted", "storage/mapped.py", "if size < needed:", "if False:", "test_mapped.py"),
    Fault("chains written over while they move", "samplers/ula.py", "state.xi + 0", "state.xi", "test_run.py"),
    Fault("layers: noise √(α/β)", "nn/functional.py", "math.sqrt(2 * steps.alpha / beta)", "math.sqrt(steps.alpha / beta)", "test_nn.py"),
    Fault("layers: hidden keys seen by the steps", "nn/functional.py", "attended = scaled_dot_product_attention(xi, key, key, attn_mask=mask", "attended = scaled_dot_product_attention(xi, key, key, attn_mask=None", "test_nn.py"),
    Fault("layers: later keys seen by the steps", "nn/functional.py", "attn_mask=mask, is_causal=is_causal, scale=beta)", "attn_mask=mask, scale=beta)", "test_nn.py"),
    Fault("layers: β left out of the steps", "nn/functional.py", "is_causal=is_causal, scale=beta)", "is_causal=is_causal)", "test_nn.py"),
    Fault("layers: rows that see nothing read something", "nn/functional.py", "return out.to(dtype) if blind is None else out.to(dtype).masked_fill(blind, 0.0)", "return out.to(dtype)", "test_nn.py"),
    Fault("layers: half precision takes its steps in half precision", "nn/functional.py", "xi, key = wide(query) if steps.n_steps else wide(query).clone(), wide(key)", "xi = query", "test_nn.py"),
    Fault("layers: heads take the wrong keys", "nn/functional.py", "tuple(x.repeat_interleave(groups, -3) for x in stored)", "tuple(torch.cat([x] * groups, -3) for x in stored)", "test_nn.py"),
    Fault("layers: fast normals too wide by 1 %", "nn/functional.py", "SQRT_2 = math.sqrt(2)", "SQRT_2 = math.sqrt(2) * 1.01", "test_nn.py"),
    Fault("layers: fast normals infinite at the ends", "nn/functional.py", "unit = 2.0**-31 * (1 - 2.0**-24)", "unit = 2.0**-31", "test_nn.py"),
    Fault("layers: the generator of fast normals ignored", "nn/functional.py", "torch.randint(2**32, (4,), generator=generator,", "torch.randint(2**32, (4,),", "test_nn.py"),
    Fault("layers: masks not registered with transformers", "nn/pretrained.py", '    masks.register(NAME, masks[PLAIN])\n', "", "test_pretrained.py"),
    Fault("layers: a context leaves its steps", "nn/pretrained.py", "if not forward.open and own", "if False and own", "test_pretrained.py"),
    Fault("layers: a context leaves its implementation", "nn/pretrained.py", "vars(owner)[name] = original.value", "pass", "test_pretrained.py"),
    Fault("layers: the first context to end ends all", "nn/pretrained.py", "if not original.contexts:", "if True:", "test_pretrained.py"),
    Fault("layers: every layer takes steps", "nn/pretrained.py", "modules if numbers is None else [", "modules if True else [", "test_pretrained.py"),
    Fault("layers: a model keeps its own attention", "nn/pretrained.py", "undo.enter_context(_temporarily_set(owner, name, PLAIN))", "pass", "test_pretrained.py"),
    Fault("layers: masks without order let through", "nn/pretrained.py", "if causal and mask is not None", "if False and mask is not None", "test_pretrained.py"),
    Fault("layers: graphs take their steps twice", "nn/pretrained.py", ' or caller.startswith("<eval_with_key>")', "", "test_pretrained.py"),
    Fault("layers: heads named twice", "nn/pretrained.py", "return sorted({value % n for value in values})", "return [value % n for value in values]", "test_pretrained.py"),
    Fault("layers: beta in the readout of all heads", "nn/pretrained.py", "states * (beta / own)", "states", "test_pretrained.py"),
    Fault("layers: normals of torch's default dtype", "nn/functional.py", 'torch.empty(shape, dtype=torch.float32, device="cpu")', "torch.empty(shape)", "test_nn.py"),
    Fault("layers: one length compiled", "nn/functional.py", "torch.randn_like(x)", "torch.randn(x.shape, generator=None)", "test_nn.py"),
    Fault("layers: every head takes steps", "nn/pretrained.py", "if self.heads is None:", "if True:", "test_pretrained.py"),
    Fault("layers: shared keys of other heads", "nn/pretrained.py", "heads // (query.shape[-3] // key.shape[-3])", "heads % key.shape[-3]", "test_pretrained.py"),
    Fault("layers: two contexts take steps twice", "nn/pretrained.py", "with torch._C.DisableTorchFunction():", "if True:", "test_pretrained.py"),
    Fault("layers: a fused encoder takes no steps", "nn/multihead.py", "        self._qkv_same_embed_dim = False\n", "        pass\n", "test_nn_multihead.py"),
    Fault("layers: copies do not share a generator", "nn/multihead.py", "memo[id(self.steps)] = self.steps", "pass", "test_nn_multihead.py"),
    Fault("layers: a bank's draws without exp(β‖m‖²/2)", "nn/hopfield.py", "self.log_r + self.beta / 2 * self._norms_squared(torch.float64)", "self.log_r + 0 * self._norms_squared(torch.float64)", "test_nn_hopfield.py"),
    Fault("sharded: sums merged without their maximum", "storage/sharded.py", "if hard else (top - highest).exp()", "if hard else torch.ones_like(top)", "test_sharded.py"),
    Fault("sharded: hard attention merged as soft", "storage/sharded.py", "(top == highest).to(top.dtype) if hard", "(top - highest).exp() if hard", "test_sharded.py"),
    Fault("sharded: a rank's part of the gradient", "storage/sharded.py", "return _Sum.apply(grad, ctx.ranks), None", "return grad, None", "test_sharded.py"),
    Fault("sharded: gradients of unscaled sums", "storage/sharded.py", "ctx.ranks.replicated(grad) * ctx.saved_tensors[0]", "ctx.ranks.replicated(grad)", "test_sharded.py"),
    Fault("sharded: second gradients of one rank", "storage/sharded.py", "None, ctx.ranks.replicated(grad) *", "None, grad *", "test_sharded.py"),
    Fault("sharded: picks without the ranks before", "core/sharded.py", "return before + own, ends", "return own, ends", "test_sharded.py"),
    Fault("sharded: rows counted from the shard", "core/sharded.py", "number = (k + self.first).double()", "number = k.double()", "test_sharded.py"),
    Fault("sharded: masked memories are nearest", "core/sharded.py", "half = torch.where(shard.log_r > -math.inf, shard.norms_squared / 2, math.inf)", "half = shard.norms_squared / 2", "test_sharded.py"),
    Fault("sharded: a shard's own normaliser", "core/sharded.py", "return float(np.logaddexp.reduce(self.ranks.numbers(here, logits.device)))", "return here", "test_sharded.py"),
    Fault("sharded: equal weights by a shard's own norms", "core/sharded.py", "(self.shard.norms_squared - M**2)", "(self.shard.norms_squared - _largest(self.shard.norms_squared))", "test_sharded.py"),
    Fault("sharded: different arguments are not compared", "storage/sharded.py", "            _require_same(records[0], rank, other)", "            pass", "test_sharded.py"),
    Fault("sharded: errors stay on their rank", "storage/sharded.py", "if other.error is not None:", "if other.error is not None and rank == self.rank:", "test_sharded.py"),
]  # fmt: skip
