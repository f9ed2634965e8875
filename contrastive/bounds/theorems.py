"""The published bounds, as printed and with the constant that their mended proofs give."""

from __future__ import annotations

import math

# Hoeffding: P(|mean - E| >= ε) <= 2 exp(-2Nε²/(b - a)²) with b - a = e - 1/e. The papers divide by
# b - a and get e^{3/2} where e (e - 1/e) = e² - 1 comes out. The printed statements hold all the
# same: E|mean - E| <= (b - a)/(2√N) (Popoviciu, Jensen) gives (e² - 1)/(2√N), which is 3.195/√N,
# where Hoeffding's tail with the printed constant gives 5.617/√N and with the mended one 8.007/√N.
PRINTED, OF_MENDED_PROOF = math.exp(1.5), math.exp(2) - 1


def theorem_2_1(n: int, m: int, tau_plus: float, *, mended: bool = False) -> float:
    """Bound (15) on the error of `debiased_pos`, in nats, in the limit δ -> 0.

        [ (1 + τ⁻/τ⁺) √(π/2N) + (1 + 1/τ⁺) √(π/(2N + 2)) ] e^{3/2}          as printed
        [ (1 + τ⁻/τ⁺) √(π/2N) + (1 + 1/τ⁺) √(π/(2(N + 2))) ] (e² - 1)       mended

    Source: Troeshestova & Isachenko, Theorem 2.1 and its proof. It holds for the
    estimator that the proof works with, P from N + 2 draws of p, not for the one of Eqs. 12-14;
    and with the floor of our `debiased_pos` from N = 2/τ⁺ on, without a δ.

    Raises:
        ValueError: n < 1, m != 1, for which alone it is stated, or τ⁺ outside (0, 1).
    """
    _check(n, m, tau_plus, lowest="(0, 1)")
    if m != 1:
        raise ValueError(f"m is {m}; allowed: 1, the theorem is stated for one positive")
    of_p = math.pi / (2 * (n + 2)) if mended else math.pi / (2 * n + 2)
    constant = OF_MENDED_PROOF if mended else PRINTED
    ratio = (1 - tau_plus) / tau_plus
    return constant * (
        (1 + ratio) * math.sqrt(math.pi / (2 * n)) + (1 + 1 / tau_plus) * math.sqrt(of_p)
    )


def theorem_3(n: int, m: int, tau_plus: float, *, mended: bool = False) -> float:
    """Bound (9) on the error of `debiased_neg`, in nats.

        C/τ⁻ √(π/2N) + C τ⁺/τ⁻ √(π/2M),     C = e^{3/2} as printed, e² - 1 mended

    Source: Chuang et al. 2020, Theorem 3. Its proof in appendix A.3 arrives at twice the printed
    bound; bounding the expectations one by one, not their tails at ε/2, saves that factor.

    Raises:
        ValueError: n < 1, m < 1 or τ⁺ outside [0, 1).
    """
    _check(n, m, tau_plus, lowest="[0, 1)")
    constant = OF_MENDED_PROOF if mended else PRINTED
    tau_minus = 1 - tau_plus
    of_n, of_m = math.sqrt(math.pi / (2 * n)), math.sqrt(math.pi / (2 * m))
    return constant / tau_minus * (of_n + tau_plus * of_m)


def lemma_1(n: int, m: int, tau_plus: float, *, mended: bool = False) -> float:
    """By how much, in nats, L_biased may at most fall below what Lemma 1 compares it with.

        L_biased >= L_unbiased + E min(0, log(E⁺h / E⁻h)) - C √(π/2N)

    Returns C √(π/2N); it depends on neither M nor τ⁺. Source: Chuang et al. 2020, Lemma 1.
    """
    _check(n, m, tau_plus, lowest="[0, 1)")
    return (OF_MENDED_PROOF if mended else PRINTED) * math.sqrt(math.pi / (2 * n))


def theorem_5(
    n: int,
    m: int,
    tau_plus: float,
    *,
    samples: int,
    rademacher: float = 0.0,
    delta: float = 0.05,
) -> float:
    """What Theorem 5 adds to the debiased loss, in nats, with 1 for its open constant.

        1/τ⁻ √(1/N) + τ⁺/τ⁻ √(1/M) + λ R/T + B √(log(1/δ)/T)
        λ = √( (M/N + 1)/τ⁻² + τ⁺² (N/M + 1) ),     B = log N · (1/τ⁻ + τ⁺)

    With probability 1 - δ the supervised loss of the encoder that minimises the empirical loss is
    below the debiased loss of any encoder of the class by this much at most, if N >= K - 1.

    Args:
        n, m, tau_plus: as in `theorem_3`.
        samples: T, anchors in the training set.
        rademacher: R, the empirical Rademacher complexity of the class; 0 for one encoder.
        delta: δ in (0, 1).

    Source: Chuang et al. 2020, Theorem 5 and Eq. 12.

    Raises:
        ValueError: as `theorem_3`, or T < 1, R < 0 or δ outside (0, 1).
    """
    _check(n, m, tau_plus, lowest="[0, 1)")
    if samples < 1 or rademacher < 0 or not 0 < delta < 1:
        raise ValueError(
            f"samples is {samples}, rademacher {rademacher} and delta {delta}; allowed: samples"
            " at least 1, rademacher at least 0, delta in (0, 1)"
        )
    tau_minus = 1 - tau_plus
    spread = math.sqrt((m / n + 1) / tau_minus**2 + tau_plus**2 * (n / m + 1))
    largest = math.log(n) * (1 / tau_minus + tau_plus)
    return (
        math.sqrt(1 / n) / tau_minus
        + tau_plus / tau_minus * math.sqrt(1 / m)
        + spread * rademacher / samples
        + largest * math.sqrt(math.log(1 / delta) / samples)
    )


def _check(n: int, m: int, tau_plus: float, lowest: str) -> None:
    if n < 1 or m < 1:
        raise ValueError(f"n is {n} and m is {m}; allowed: numbers of samples, at least 1")
    if not (0 < tau_plus < 1 or (tau_plus == 0 and lowest == "[0, 1)")):
        raise ValueError(f"tau_plus is {tau_plus}; allowed: a number in {lowest}")
