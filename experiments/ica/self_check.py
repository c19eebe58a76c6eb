"""What a rotation finds in pure noise: the table in ``dpcape/ica/self_check.py``.

Run: python experiments/ica/self_check.py
"""

from __future__ import annotations

import argparse

import numpy as np

from dpcape.estimators.ica.rotation import rotate, tensor_values
from dpcape.estimators.ica.stages import starts
from dpcape.statistics.packing import packed_size4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dimensions", default="2,3,4,5,7,10,15,20,30")
    parser.add_argument("--draws", type=int, default=24)
    parser.add_argument("--kurtosis", choices=["positive", "mixed"], default="positive")
    arguments = parser.parse_args()
    rng = np.random.default_rng(20240601)
    for n in (int(text) for text in arguments.dimensions.split(",")):
        found = []
        # Large tensors fluctuate less and take longer.
        for _ in range(arguments.draws if n <= 20 else 4):
            noise = rng.standard_normal(packed_size4(n))
            rotation = rotate(noise, n, kurtosis=arguments.kurtosis, n_starts=starts(n))
            found.append(np.abs(tensor_values(noise, rotation)).mean())
        print(f"{n:3d} dimensions: mean {np.mean(found):.3f}, sd between draws {np.std(found, ddof=1):.3f}", flush=True)


if __name__ == "__main__":
    main()
