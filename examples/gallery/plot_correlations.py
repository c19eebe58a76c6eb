"""
A heat map of correlations
==========================

Three clinics compute the correlations of their measurements without pooling them. Dots mark pairs that are more than
noise and sampling.
"""

import matplotlib.pyplot as plt
import numpy as np

from dpcape import Cape, Correlation, Federation, in_process, rows

# %%
# The records
# -----------
# Ranges are agreed beforehand, from public knowledge.

ranges = {"age": (18, 90), "weight": (40, 160), "height": (140, 210), "pressure": (80, 220), "pulse": (40, 140)}


def clinic(n_patients, seed):
    """Return simulated patients."""
    source = np.random.default_rng(seed)
    age = source.normal(52, 13, n_patients)
    height = source.normal(171, 9, n_patients)
    weight = 0.8 * (height - 171) + source.normal(76, 11, n_patients)
    pressure = 85 + 0.5 * age + 0.25 * weight + source.normal(0, 9, n_patients)
    pulse = source.normal(72, 9, n_patients)
    table = np.column_stack([age, weight, height, pressure, pulse])
    return rows(table, ranges=ranges, feature_names=list(ranges))


sizes = {"lyon": 2500, "oslo": 2000, "lima": 3000}
sites = in_process({name: clinic(size, seed) for seed, (name, size) in enumerate(sizes.items())})
model = Correlation(epsilon=1.0, delta=1e-6).fit(Federation(sites, protocol=Cape(n_colluding=1)))
model.plot()
plt.show()

# %%
# Intervals
# ---------
# They cover sampling and privacy noise.

for pair in (("weight", "height"), ("age", "pressure"), ("age", "pulse")):
    print(*pair, "{:.2f}, from {:.2f} to {:.2f}".format(*model.between(*pair)))
