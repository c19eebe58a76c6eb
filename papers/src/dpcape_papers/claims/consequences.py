"""What follows from each verdict for a user: the order of the page, the gravest first and slips of equations last."""

from __future__ import annotations

from dpcape_papers.names.name import LARGER_NOISE, NO_CONSEQUENCE, NO_GUARANTEE, OTHER_MECHANISM

CONSEQUENCE_OF = {
    # As published, nobody is protected as stated.
    "preparation": NO_GUARANTEE,
    "topic-moments": NO_GUARANTEE,
    "wishart": NO_GUARANTEE,
    "ica-unit": NO_GUARANTEE,
    "ica-moments-accountant": NO_GUARANTEE,
    "factor-guarantee": NO_GUARANTEE,
    "objective-perturbation": NO_GUARANTEE,
    "floating-point": NO_GUARANTEE,
    # The same is computed in another way.
    "cape-asymmetric": OTHER_MECHANISM,
    "cape-drop-outs-gain": OTHER_MECHANISM,
    "cape-drop-outs-privacy": OTHER_MECHANISM,
    "ica-basic-composition": OTHER_MECHANISM,
    "ica-renyi": OTHER_MECHANISM,
    "ica-gradient": OTHER_MECHANISM,
    "djica-laplace": OTHER_MECHANISM,
    "functional-laplace": OTHER_MECHANISM,
    "functional-polynomial": OTHER_MECHANISM,
    # More noise.
    "cape-theorem": LARGER_NOISE,
    "cape-no-collusion": LARGER_NOISE,
    "cape-output": LARGER_NOISE,
    "capecca-collusion": LARGER_NOISE,
    "reused-theorem": LARGER_NOISE,
    "second-moment": LARGER_NOISE,
    "replicated-records": LARGER_NOISE,
    "mixture-second-moment": LARGER_NOISE,
    "mixture-third-moment": LARGER_NOISE,
    "tensor-theorem": LARGER_NOISE,
    "functional-joint": LARGER_NOISE,
    "gaussian-classical": LARGER_NOISE,
    "poster-privacy": LARGER_NOISE,
    # Nothing follows; what holds first, slips of equations last.
    "cape-gain": NO_CONSEQUENCE,
    "functional-degrees": NO_CONSEQUENCE,
    "cape-other-functions": NO_CONSEQUENCE,
    "cape-unequal": NO_CONSEQUENCE,
    "cape-tail": NO_CONSEQUENCE,
    "ica-convergence": NO_CONSEQUENCE,
    "communication": NO_CONSEQUENCE,
    "pca-bounds": NO_CONSEQUENCE,
    "cca-constraint": NO_CONSEQUENCE,
    "factor-theorem-1": NO_CONSEQUENCE,
    "factor-equations-5-9": NO_CONSEQUENCE,
    "factor-equation-10": NO_CONSEQUENCE,
    "factor-equation-12": NO_CONSEQUENCE,
}
