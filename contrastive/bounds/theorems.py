"""The published bounds, as printed and with the slips of their proofs corrected."""

from __future__ import annotations

import math

# Hoeffding: P(|mean - E| >= ε) <= 2 exp(-2Nε²/(b - a)²) with b - a = e - 1/e. The papers divide by
# b - a and get e^{3/2} where e (e - 1/e) = e² - 1 comes out.
PRINTED, CORRECTED = math.exp(1.5), math.exp(2) - 1


def theorem_2_1(n: int, m: int, tau_plus: float, *, corrected: bool = False) -> float:
    """Bound (15) on the error of `debiased_pos`, in nats, in the limit δ -> 0.

        [ (1 + τ⁻/τ⁺) √(π/2N) + (1 + 1/τ⁺) √(π/(2N + 2)) ] e^{3/2}          as printed
        [ (1 + τ⁻/τ⁺) √(π/2N) + (1 + 1/τ⁺) √(π/(2(N + 2))) ] (e² - 1)       corrected

    Source: Troeshestova & Isachenko, Theorem 2.1 and its proof. The corrected form holds for the
    estimator that the proof works with, P from N + 2 draws of p, not for the one of Eqs. 12-14;
    and with the floor of our `debiased_pos` from N = 2/τ⁺ on, without a δ.

    Raises:
        ValueError: n < 1, m != 1, for which alone it is stated, or τ⁺ outside (0, 1).
    """
    _check(n, m, tau_plus, lowest="(0, 1)")
    if m != 1:
        raise ValueError(f"m is {m}; allowed: 1, the theorem is stated for one positive")
    of_p = math.pi / (2 * (n + 2)) if corrected else math.pi / (2 * n + 2)
    constant = CORRECTED if corrected else PRINTED
    ratio = (1 - tau_plus) / tau_plus
    return constant * (
        (1 + ratio) * math.sqrt(math.pi / (2 * n)) + (1 + 1 / tau_plus) * math.sqrt(of_p)
    )


def theorem_3(n: int, m: int, tau_plus: float, *, corrected: bool = False) -> float:
    """Bound (9) on the error of `debiased_neg`, in nats.

        C/τ⁻ √(π/2N) + C τ⁺/τ⁻ √(π/2M),     C = e^{3/2} as printed, e² - 1 corrected

    Source: Chuang et al. 2020, Theorem 3. Its proof in appendix A.3 arrives at twice the printed
    bound; bounding the expectations one by one, not their tails at ε/2, saves that factor.

    Raises:
        ValueError: n < 1, m < 1 or τ⁺ outside [0, 1).
    """
    _check(n, m, tau_plus, lowest="[0, 1)")
    constant = CORRECTED if corrected else PRINTED
    tau_minus = 1 - tau_plus
    of_n, of_m = math.sqrt(math.pi / (2 * n)), math.sqrt(math.pi / (2 * m))
    return constant / tau_minus * (of_n + tau_plus * of_m)


def lemma_1(n: int, m: int, tau_plus: float, *, corrected: bool = False) -> float:
    """By how much, in nats, L_biased may at most fall below what Lemma 1 compares it with.

        L_biased >= L_unbiased + E min(0, log(E⁺h / E⁻h)) - C √(π/2N)

    Returns C √(π/2N); it depends on neither M nor τ⁺. Source: Chuang et al. 2020, Lemma 1.
    """
    _check(n, m, tau_plus, lowest="[0, 1)")
    return (CORRECTED if corrected else PRINTED) * math.sqrt(math.pi / (2 * n))


def _check(n: int, m: int, tau_plus: float, lowest: str) -> None:
    if n < 1 or m < 1:
        raise ValueError(f"n is {n} and m is {m}; allowed: numbers of samples, at least 1")
    if not (0 < tau_plus < 1 or (tau_plus == 0 and lowest == "[0, 1)")):
        raise ValueError(f"tau_plus is {tau_plus}; allowed: a number in {lowest}")
