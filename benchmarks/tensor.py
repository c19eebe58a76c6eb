"""Third moments and the tensor power method: ratios of process CPU time, one thread, one run."""

from __future__ import annotations

import numpy as np
from timing import cpu_times, show

from dpcape import rows
from dpcape.postprocessing.tensor_power import spread_directions, strongest
from dpcape.statistics.moments import second_moment
from dpcape.statistics.third_moments import third_moment, whitened_third_moment

BLOCK = 1024


def dense_third_moment(X):
    """All D^3 entries by one matrix product per block: the straightforward fast way."""
    width = X.shape[1]
    total = np.zeros((width, width * width))
    pairs = np.empty((BLOCK, width, width))
    for start in range(0, len(X), BLOCK):
        block = X[start : start + BLOCK]
        np.multiply(block[:, :, None], block[:, None, :], out=pairs[: len(block)])
        total += block.T @ pairs[: len(block)].reshape(len(block), -1)
    return total


def third_moments(n_records, width, n_components):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_records, width))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    held = rows(X, bound=1.0)
    whitener = np.linalg.qr(rng.normal(size=(width, n_components)))[0] * 3
    full = third_moment(held.facts(), noise_variance=0.0)
    few = whitened_third_moment(held.facts(), whitener, clip=1.0, noise_variance=0.01)
    part = X[:20480]
    held_part = rows(part, bound=1.0)
    times = cpu_times({"dense": lambda: dense_third_moment(part), "packed": lambda: full.total(held_part)}, 5)
    label = f"D={width} K={n_components}"
    show(f"packed third moment / dense GEMM, {label}", times["packed"] / times["dense"], "<= 0.4")
    times = cpu_times({"raw": lambda: X.T @ X, "few": lambda: few.total(held)}, 15)
    goal = "<= 2.2" if width == 50 else "<= 1.3"
    show(f"whitened, clipped third moment / X'X, {label}, N={n_records}", times["few"] / times["raw"], goal)
    second = second_moment(held.facts())
    times = cpu_times({"second": lambda: second.total(held), "few": lambda: few.total(held)}, 5)
    show(f"  the same / second moment, both with rows clipped, {label}", times["few"] / times["second"], "(colour)")
    times = cpu_times({"few": lambda: few.total(held), "full": lambda: full.total(held)}, 1)
    show(f"  full / whitened, {label}", times["full"] / times["few"], "(colour)")


def tensorly_power(tensor, n_restarts, n_iter):
    """The power iteration of tensorly (symmetric_power_iteration), one restart at a time."""
    from tensorly.decomposition import symmetric_power_iteration

    return symmetric_power_iteration(tensor, n_repeat=n_restarts, n_iteration=n_iter)


def plain_power(tensor, n_restarts, n_iter, rng):
    """The textbook loop: one restart at a time, T(I, v, v) by two contractions."""
    best, most = None, -np.inf
    for _ in range(n_restarts):
        v = rng.normal(size=len(tensor))
        v /= np.linalg.norm(v)
        for _ in range(n_iter):
            v = np.tensordot(np.tensordot(tensor, v, axes=(2, 0)), v, axes=(1, 0))
            v /= np.linalg.norm(v)
        value = float(np.tensordot(np.tensordot(tensor, v, axes=(2, 0)), v, axes=(1, 0)) @ v)
        if value > most:
            best, most = v, value
    return best


def power(n_components=10, n_restarts=32, n_iter=40):
    rng = np.random.default_rng(1)
    basis = np.linalg.qr(rng.normal(size=(n_components, n_components)))[0]
    tensor = np.einsum("k,ik,jk,lk->ijl", rng.uniform(2, 4, n_components), basis, basis, basis)
    starts = spread_directions(n_components, n_restarts)
    tasks = {
        "ours": lambda: [strongest(tensor, starts, n_iter) for _ in range(20)],
        "plain": lambda: plain_power(tensor, n_restarts, n_iter, rng),
    }
    try:
        import tensorly  # noqa: F401

        tasks["tensorly"] = lambda: tensorly_power(tensor, n_restarts, n_iter)
    except ImportError:
        print("tensorly is not installed: its ratio is left out (pip install tensorly in an environment of its own)")
    times = cpu_times(tasks, 5)
    each = f"K={n_components}, {n_restarts} restarts x {n_iter} steps"
    if "tensorly" in times:
        show(f"tensorly's symmetric power iteration / ours, {each}", 20 * times["tensorly"] / times["ours"], ">= 100")
    show(f"plain numpy loop / ours, {each}", 20 * times["plain"] / times["ours"], "(colour)")


def main():
    third_moments(100_000, 50, 10)
    third_moments(100_000, 100, 10)
    power()


if __name__ == "__main__":
    main()
