"""
A ledger that refuses
=====================

A site has a ceiling of epsilon 3 at delta 1e-5. Studies of epsilon 1 arrive until it says no. Spending adds in squares
of mu, so more than three fit, exactly accounted.
"""

import matplotlib.pyplot as plt
import numpy as np

from dpcape import Federation, Independent, Ledger, Mean, Replay, in_process, rows
from dpcape.core.errors import LedgerRefused

# %%
# The charge is written before records are read. A refused study costs nothing.

ledger = Ledger(epsilon=3.0, delta=1e-5)
X = np.random.default_rng(0).uniform(-0.5, 0.5, size=(1000, 2))
spent = [0.0]
refusal = ""
while not refusal:
    sites = in_process({"lyon": rows(X, bound=1.0)}, ledgers={"lyon": ledger}, noise=Replay(len(spent)))
    try:
        Mean(epsilon=1.0, delta=1e-5).fit(Federation(sites, protocol=Independent()))
        spent.append(ledger.spent())
    except LedgerRefused as error:
        refusal = str(error)
print(refusal)

# %%
# Spending after each study, beside what plain addition of epsilons would say.

fig, ax = plt.subplots()
ax.step(range(len(spent)), spent, where="post", color="#0a7d91", label="spent, exactly")
ax.plot(range(len(spent)), range(len(spent)), color="0.6", linestyle=":", label="by adding epsilons")
ax.axhline(3.0, color="#b45309", linestyle="--", label="ceiling")
ax.set_xlabel("studies")
ax.set_ylabel("epsilon at delta 1e-5")
ax.legend(frameon=False)
plt.show()
