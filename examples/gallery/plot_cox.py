"""
Hazard ratios across clinics
============================

Three clinics estimate hazard ratios of age, stage and treatment without pooling their patients.
"""

import matplotlib.pyplot as plt
import numpy as np

from dpcape import Cape, Cox, Federation, in_process, table

# %%
# The columns
# -----------
# Ranges and levels are public; who has which value is private.

columns = {
    "survival": {"time": "days", "event": "died", "range": [0, 1825]},
    "age": (18, 100),
    "stage": ["I", "II", "III"],
    "arm": ["usual", "new"],
}


def clinic(n_patients, seed):
    """Return simulated patients: hazards rise with age and stage, and the new treatment lowers them."""
    source = np.random.default_rng(seed)
    age = source.normal(62, 10, n_patients)
    stage = source.choice(np.array(["I", "II", "III"], dtype=object), n_patients)
    arm = source.choice(np.array(["usual", "new"], dtype=object), n_patients)
    log_hazard = 0.03 * (age - 62) + 0.3 * (stage == "II") + 0.7 * (stage == "III") - 0.5 * (arm == "new")
    time, end = source.exponential(1800 * np.exp(-log_hazard)), source.uniform(300, 2500, n_patients)
    seen = {"days": np.minimum(time, end), "died": (time <= end).astype(int)}
    return table({**seen, "age": age, "stage": stage, "arm": arm}, columns=columns)


sizes = {"lyon": 7000, "oslo": 5000, "lima": 8000}
sites = in_process({name: clinic(size, seed) for seed, (name, size) in enumerate(sizes.items())})
model = Cox(["age", "stage", "arm"], epsilon=1.0, delta=1e-6).fit(Federation(sites, protocol=Cape(n_colluding=1)))
print(model.to_text())

# %%
# The ratios
# ----------
# Intervals cover sampling and noise. The ratio of age is drawn per standard deviation.

model.plot_ratios()
plt.show()
