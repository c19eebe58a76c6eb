"""
Table 1 by treatment arm
========================

Three clinics describe their patients by arm without pooling them. One release pays for the whole table; groups cost no
extra noise.
"""

import matplotlib.pyplot as plt
import numpy as np

from dpcape import Cape, Federation, Summary, in_process, table

# %%
# The columns
# -----------
# Ranges and levels are agreed beforehand, from public knowledge. Values are private, and so is which of them are
# missing.

columns = {
    "age": (18, 90),
    "weight": (40, 160),
    "sex": ["F", "M"],
    "seen": {"range": ["2020-01-01", "2024-12-31"]},
    "arm": ["new", "usual"],
}


def clinic(n_patients, seed):
    """Return simulated patients; the new treatment is given to older ones."""
    source = np.random.default_rng(seed)
    arm = source.choice(np.array(["new", "usual"], dtype=object), n_patients)
    age = source.normal(52, 13, n_patients) + 6 * (arm == "new")
    weight = source.gamma(28, 2.8, n_patients)
    weight[source.random(n_patients) < 0.08] = np.nan
    sex = source.choice(np.array(["F", "M"], dtype=object), n_patients, p=[0.6, 0.4])
    seen = np.datetime64("2020-01-01") + source.integers(0, 1826, n_patients)
    return table({"age": age, "weight": weight, "sex": sex, "seen": seen, "arm": arm}, columns=columns)


sizes = {"lyon": 900, "oslo": 700, "lima": 1100}
sites = in_process({name: clinic(size, seed) for seed, (name, size) in enumerate(sizes.items())})
model = Summary(by="arm", epsilon=2.0, delta=1e-6).fit(Federation(sites, protocol=Cape(n_colluding=1)))
print(model.to_text())

# %%
# The distribution of a column
# ----------------------------
# The released counts at the knots of a range show a column's distribution. The bars are about the records; noise is in
# them.

shown = (model.cells_[:, 0] == "age") & (model.cells_[:, 1] != "missing")
knots = model.cells_[shown, 1].astype(float)
fig, ax = plt.subplots()
for group, style in (("new", "-"), ("usual", "--")):
    counts = model.histogram_[shown, list(model.groups_).index(group)]
    ax.plot(knots, np.cumsum(counts) / counts.sum(), style, label=group)
ax.set_xlabel("age")
ax.set_ylabel("share of patients up to this age")
ax.legend(frameon=False)
plt.show()
