"""
Do sites differ, and what holds beyond them?
============================================

Eight sites compare their means. The interval of a pooled mean is for these sites; that of the mean over sites is for
the wider population of sites.
"""

import matplotlib.pyplot as plt
import numpy as np

from dpcape import Federation, Heterogeneity, SecureSum, in_process, table

# %%
# The sites
# ---------
# Every site has a mean of its own. The column with the sites has public levels.

names = ["lyon", "oslo", "lima", "rome", "bonn", "york", "graz", "cork"]
columns = {"site": names, "volume": (1, 6)}
shifts = np.random.default_rng(7).normal(0, 0.15, len(names))


def people(name, seed, n_people):
    """Return simulated people of one site."""
    source = np.random.default_rng(seed)
    volume = source.normal(3.5 + shifts[seed], 0.5, n_people)
    return table({"site": np.full(n_people, name, dtype=object), "volume": volume}, columns=columns)


held = {name: people(name, seed, 500 + 100 * seed) for seed, name in enumerate(names)}
federation = Federation(in_process(held), protocol=SecureSum(n_colluding=1))
model = Heterogeneity("site", epsilon=3.0, delta=1e-6).fit(federation)
print(model.to_text())

# %%
# The forest plot
# ---------------
# Means of sites with 95% intervals, which cover sampling and noise; below the line, what holds for these sites, for the
# wider population and for one further site.

model.plot_sites("volume")
plt.show()

# %%
# What is visible
# ---------------
# The result has a noisy total of each site, also under secure sum. The guarantee says so.

print(model.guarantee_)
