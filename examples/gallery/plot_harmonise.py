"""
Harmonise scanners
==================

Three hospitals measure the same ten regions on different scanners. Location and scale of each scanner are released
under differential privacy; each hospital then harmonises its own records by these public numbers.
"""

import matplotlib.pyplot as plt
import numpy as np

from dpcape import Cape, Federation, Harmonise, in_process, table

# %%
# The records
# -----------
# Ranges and levels are agreed beforehand, from public knowledge.

scanners = ["lima", "lyon", "oslo"]
regions = [f"region {number}" for number in range(1, 11)]
columns = {**{name: (1.0, 4.0) for name in regions}, "scanner": scanners}


def hospital(number, n_people=2500):
    """Return simulated thickness; scanners differ in mean and spread."""
    source = np.random.default_rng(number)
    thickness = source.normal(2.5, 0.25 + 0.06 * number, (10, n_people)) + source.normal(0, 0.15, (10, 1))
    people = dict(zip(regions, thickness, strict=True))
    return {**people, "scanner": np.full(n_people, scanners[number], dtype=object)}


raw = [hospital(number) for number in range(3)]
sites = in_process({name: table(part, columns=columns) for name, part in zip(scanners, raw, strict=True)})
model = Harmonise("scanner", epsilon=3.0, delta=1e-6).fit(Federation(sites, protocol=Cape(n_colluding=1)))
print(model.verdicts_[0])

# %%
# Before and after
# ----------------
# The means are drawn from simulated records to show the effect. Real records stay at their hospitals.

fig, axes = plt.subplots(1, 2, sharey=True)
for ax, parts, title in zip(axes, (raw, [model.transform(part) for part in raw]), ("before", "after"), strict=True):
    for name, part in zip(scanners, parts, strict=True):
        ax.plot(range(1, 11), [part[region].mean() for region in regions], "o-", label=name)
    ax.set_title(title)
    ax.set_xlabel("region")
axes[0].set_ylabel("mean thickness")
axes[0].legend(frameon=False)
plt.show()
