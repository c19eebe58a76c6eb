"""Names of the curves and measures of figures 8.1 to 8.3 as their authors ran them."""

from __future__ import annotations

DP_FM, OUTPUT = "dp-fm", "objPert (output perturbation)"
MINIMUM, LOSS, ERROR = "minimum of the noisy objective", "$f_D(w)$", "$err_w$"
