"""
Adjusted group differences
==========================

Four hospitals compare patients with controls in twenty regions of the brain. Scanners differ, and patients are older:
both are adjusted for. Site, age and diagnosis of a person stay private.
"""

import matplotlib.pyplot as plt
import numpy as np

from dpcape import Cape, Federation, MassUnivariate, in_process, table

# %%
# The columns
# -----------
# Ranges and levels are agreed beforehand, from public knowledge: about four standard deviations to each side.

hospitals = ["lima", "lyon", "oslo", "rome"]
regions = [f"region {number}" for number in range(1, 21)]
columns = {
    **{name: (1.0, 4.0) for name in regions},
    "age": (18, 90),
    "sex": ["F", "M"],
    "diagnosis": ["control", "patient"],
    "hospital": hospitals,
}


def hospital(number, n_people):
    """Return simulated people: five regions are thinner in patients, all get thinner with age."""
    source = np.random.default_rng(number)
    age = np.clip(source.normal(45 + 4 * number, 14, n_people), 18, 90)
    is_patient = source.random(n_people) < 1 / (1 + np.exp(-0.03 * (age - 50)))
    thickness = source.normal(2.5, 0.3, (n_people, 20)) + source.normal(0, 0.1, 20)
    thickness -= 0.006 * (age[:, None] - 50)
    thickness[:, :5] -= 0.12 * is_patient[:, None]
    people = dict(zip(regions, thickness.T, strict=True))
    people["age"] = age
    people["sex"] = source.choice(np.array(["F", "M"], dtype=object), n_people)
    people["diagnosis"] = np.where(is_patient, "patient", "control").astype(object)
    people["hospital"] = np.full(n_people, hospitals[number], dtype=object)
    return table(people, columns=columns)


sites = in_process({name: hospital(number, 1500) for number, name in enumerate(hospitals)})
federation = Federation(sites, protocol=Cape(n_colluding=1))
model = MassUnivariate("diagnosis", covariates=["age", "sex"], site="hospital", epsilon=3.0, delta=1e-6)
model.fit(federation)
print(model.to_text())

# %%
# A forest plot
# -------------
# Intervals cover sampling and noise. Regions with q of at most 0.05 are findings.

model.plot_differences()
plt.show()
