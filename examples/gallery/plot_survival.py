"""
Survival by treatment arm
=========================

Three clinics draw survival curves of their patients by arm without pooling them. One release pays for curves, medians,
numbers at risk and the log-rank test.
"""

import matplotlib.pyplot as plt
import numpy as np

from dpcape import Cape, Federation, KaplanMeier, in_process, table

# %%
# The columns
# -----------
# A time to an event is two columns and a public range of time. Arms are public levels; who is in which arm is private.

columns = {
    "survival": {"time": "days", "event": "died", "range": [0, 1825]},
    "arm": ["new", "usual"],
}


def clinic(n_patients, seed):
    """Return simulated patients; the new treatment halves the hazard."""
    source = np.random.default_rng(seed)
    arm = source.choice(np.array(["new", "usual"], dtype=object), n_patients)
    time = source.exponential(np.where(arm == "new", 3000, 1500))
    end = source.uniform(300, 2500, n_patients)
    return table(
        {"days": np.minimum(time, end), "died": (time <= end).astype(int), "arm": arm},
        columns=columns,
    )


sizes = {"lyon": 700, "oslo": 500, "lima": 800}
sites = in_process({name: clinic(size, seed) for seed, (name, size) in enumerate(sizes.items())})
model = KaplanMeier(by="arm", epsilon=1.0, delta=1e-6).fit(Federation(sites, protocol=Cape(n_colluding=1)))
print(model.to_text())

# %%
# The curves
# ----------
# Bands are 95% intervals at one time. They cover noise, sampling, and where within a bin of time follow-up ended.

model.plot_curves()
plt.show()
