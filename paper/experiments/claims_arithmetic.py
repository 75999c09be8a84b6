"""Claims that follow from the numbers of the paper itself, or can be neither computed nor measured here."""

from __future__ import annotations

from ..closed_form import mala_acceptance, snr, well_separated_bias
from ..protocol import ALPHA
from ..results import Claim


def arithmetic() -> list[Claim]:
    """The claims, with the arithmetic written out."""
    return [*_ratios(), *_own_tables(), *_by_formula(), *_open()]


def _ratio(line: int, quote: str, words: str, above: float, below: float, printed: float, digits: int) -> Claim:
    """A printed ratio of two printed numbers."""
    verdict = "holds" if round(above / below, digits) == printed else "does not hold"
    return Claim(line, quote, words, verdict, f"{above:g}/{below:g} = {above / below:.2f}.", "arithmetic")


def _ratios() -> list[Claim]:
    return [
        _ratio(
            306, "$6.9{\\times}$ lower", "SA's composition KL is 6.9 times lower than the VAE's.", 0.416, 0.060, 6.9, 1
        ),
        _ratio(306, "$3.4{\\times}$ lower", "Its per-position KL is 3.4 times lower.", 9.99, 2.92, 3.4, 1),
        _ratio(306, "$66\\%$ higher", "Its MI r is 66 % higher.", 0.871, 0.525, 1.66, 2),
        _ratio(282, "($2.6{\\times}$ VAE)", "On digits SA has 2.6 times the novelty of the VAE.", 0.548, 0.214, 2.6, 1),
        _ratio(282, "($2.0{\\times}$ VAE)", "… and 2.0 times its diversity.", 0.885, 0.441, 2.0, 1),
        _ratio(310, "a $9.2{\\times}$ improvement", "The mask improves the score 9.2 times.", 0.960, 0.104, 9.2, 1),
        _ratio(
            1320, "$85\\%$ higher diversity", "SA has 85 % more diversity than the best VAE.", 0.600, 0.325, 1.85, 2
        ),
        _ratio(759, "the ratio of $0.50$", "β* is 0.50 of the prediction for random patterns.", 3.85, 7.68, 0.50, 2),
        _ratio(836, "$272$ of $424$ tickers passed", "272 of 424 tickers are 64.2 %.", 272, 424, 0.642, 3),
    ]


def _own_tables() -> list[Claim]:
    return [
        Claim(
            306,
            "\\Delta\\mathrm{KL}<0.002",
            "SA and MALA differ by less than 0.002 in KL at both temperatures.",
            "does not hold",
            "The paper's own values: 0.107 and 0.112 at β = 77 (0.005), 0.060 and 0.058 at β = 8 (0.002). With 150 "
            "sequences neither difference is significant (table protein-main).",
            "arithmetic",
        ),
        Claim(
            700,
            "The diversity gap of $0.318$",
            "The difference of diversities, 0.318, is the contribution of the starts.",
            "holds",
            "0.600 − 0.282 = 0.318; five of 150 samples share a start in one case, all in the other.",
            "arithmetic",
        ),
        Claim(
            168,
            "the barriers are low enough that single chains do cross basins",
            "A diversity of 0.796 of one chain, above 0.600, shows that it crosses basins at β = 200.",
            "does not hold",
            "White noise around one memory has 1 − 1/(1 + d/β) = 0.797 without any crossing.",
            "closed form",
        ),
        Claim(
            306,
            "confirmed that SA preserved position-specific conservation",
            "KL, per-position KL and MI r show that SA preserves conservation and co-evolution.",
            "does not hold",
            "A null model that draws every position independently has a lower KL, a lower per-position KL and a higher "
            "MI r than SA (table protein-main, row “Independent sites”).",
            "data",
        ),
        Claim(
            1320,
            "all full-data VAEs produced less diverse outputs",
            "All full-data VAEs (0.325 to 0.603) are less diverse than SA at any temperature (0.600 to 0.885).",
            "does not hold",
            "By the numbers of the sentence: 0.603 > 0.600.",
            "arithmetic",
        ),
        Claim(
            1297,
            "latent dimensions swept over",
            "The digit-3 VAE was swept over latent dimensions 8, 16, 32 and 64.",
            "not tested",
            "The table has no row for 16.",
            "arithmetic",
        ),
        Claim(
            1390,
            "250 patterns per 25-dimensional head subspace",
            "With K = 1,000 and four heads, a head has 250 patterns in 25 dimensions.",
            "does not hold",
            "Every head stores all K projected patterns; heads share the dimensions, not the patterns. The published "
            "values at K = 1,000 follow with 196 components per head.",
            "proof",
        ),
        Claim(
            1265,
            "consistent with the theoretical prediction that the transition temperature shifts",
            "That β* grows from 9 to 18 with K is what the theory predicts.",
            "does not hold",
            "The prediction is √d = 28 at every K; the paper derives no dependence on K.",
            "arithmetic",
        ),
        Claim(
            1232,
            "the maximum available in MNIST",
            "3,500 is the largest number of digits 3 in MNIST.",
            "does not hold",
            "The training set of MNIST has 6,131 images of the digit 3.",
            "data",
        ),
        Claim(
            838,
            "The per-ticker affine correction did not alter this value",
            "The affine correction leaves the error of the correlations unchanged.",
            "holds",
            "A correlation does not depend on the scale of its variables.",
            "proof",
        ),
        Claim(
            925,
            "essentially the random-guess baseline",
            "Without a mask, chains find the target subject in 10.4 % of the cases, like a random guess.",
            "holds in part",
            "The score averages over targets regardless of the start, so it is near 0.1 by construction: the 50 starts "
            "themselves score 0.096 (table olivetti-recovery).",
            "data",
        ),
    ]


def _by_formula() -> list[Claim]:
    accepted = {alpha: mala_acceptance(alpha, 784) for alpha in (0.01, 0.02, 0.05, 0.1, 0.2, 0.3)}
    ratios = ", ".join(f"{snr(beta, d):.3f}" for beta, d in ((2000, 784), (200, 784), (50, 784), (77, 59), (8, 59)))
    return [
        Claim(
            207,
            "this evaluates to $\\mathrm{SNR}^{*}=0.025$",
            "SNR* is 0.025 at d = 64 and 0.013 at d = 784.",
            "holds",
            f"√(α/(2√d)) = {(ALPHA / 16) ** 0.5:.4f} and {(ALPHA / 56) ** 0.5:.4f}.",
            "closed form",
        ),
        Claim(
            759,
            "$\\mathrm{SNR}=0.081$",
            "The SNR is 0.113, 0.036, 0.018 for digits at β = 2000, 200, 50 and 0.081, 0.026 for proteins at 77, 8.",
            "holds",
            f"√(αβ/2d) = {ratios}.",
            "closed form",
        ),
        Claim(
            1135,
            "MALA acceptance exceeded $97",
            "MALA accepts more than 97 % up to α = 0.02, and 75 to 91 % at α = 0.05 to 0.1.",
            "holds",
            f"2Φ(−s/2) is {accepted[0.02]:.3f} at α = 0.02, {accepted[0.05]:.3f} at 0.05, {accepted[0.1]:.3f} at 0.1.",
            "closed form",
        ),
        Claim(
            1135,
            "MALA acceptance collapsed to $0",
            "From α = 0.2 on MALA is frozen, so ULA is preferable at large steps.",
            "does not hold",
            f"In equilibrium it accepts {accepted[0.2]:.2f} at α = 0.2 and {accepted[0.3]:.2f} at 0.3; it is the "
            "start near "
            "a stored pattern that it cannot leave (table stepsize-sweep). ULA's variance is 1/(1 − α/2) times too "
            "large: "
            "by 11 % at α = 0.2.",
            "closed form",
        ),
        Claim(
            1135,
            "ULA bias is negligible ($\\Delta E = 0.0018$)",
            "At α = 0.01 the bias of ULA in the energy is 0.0018.",
            "holds in part",
            f"The bias is {well_separated_bias(784, 2000.0, ALPHA):.4f}; the rest is the noise of the difference of "
            "two "
            "runs (± 0.0014).",
            "closed form",
        ),
        Claim(
            1290,
            "The ULA bias monotonically decreases",
            "The bias of ULA decreases with β.",
            "holds",
            "In the energy it is (d/2β)(α/2)/(1 − α/2), proportional to 1/β.",
            "closed form",
        ),
        Claim(
            588,
            "regardless of digit morphology",
            "MALA accepts 99.2 % for every digit, which shows that the bias is negligible whatever their shape.",
            "holds",
            f"2Φ(−s/2) = {accepted[0.01]:.1%} depends on α and d alone: it says nothing about the digits.",
            "closed form",
        ),
        Claim(
            490,
            "doubling the per-iteration",
            "MALA doubles the cost of a step.",
            "does not hold",
            "The attention at the current state is known from the step before; a step needs one new evaluation, as for "
            "ULA.",
            "proof",
        ),
        Claim(
            1177,
            "approx 2.22",
            "Samples at β = 200 have a norm of about 2.22.",
            "holds",
            f"√(1 + d/β) = {(1 + 784 / 200) ** 0.5:.2f}.",
            "closed form",
        ),
        Claim(
            240,
            "the masked sampler is identical to running unmasked SA",
            "Masking the softmax is the same as removing the other memories.",
            "holds",
            "Weights of zero; the mixture loses the other components.",
            "proof",
        ),
    ]


def _open() -> list[Claim]:
    return [
        Claim(
            306,
            "SA-generated sequences fold more accurately",
            "Generated sequences fold better than natural ones in six of eight families.",
            "not tested",
            "A result of other work, with structure prediction.",
            "none",
        ),
        Claim(
            742,
            "wall-clock on a laptop CPU",
            "50,000 steps take 12 s on a laptop.",
            "not tested",
            "Depends on the machine; the experiment single-chain runs eight such chains at each of three temperatures.",
            "none",
        ),
        Claim(
            1179,
            "SA samples showed faint but recognizable digit-3 structure",
            "Samples at β = 200 look like faint digits, Gaussian controls do not.",
            "not tested",
            "A visual judgement; a stored digit plus white noise, which is no chain, has the same values in every "
            "column "
            "(table noise-control).",
            "none",
        ),
    ]
