"""Study texts for tests."""

from __future__ import annotations

import json

from dpcape.analyses.registry import analyses

HEAD = """\
[study]
name = "first"
analysis = "{analysis}"
epsilon = 2.0
delta = 1e-5
{parameters}

[protocol]
kind = "cape"
n_colluding = 1

[sites.lima]
[sites.lyon]
[sites.oslo]

[data]
{data}
"""

ROWS = 'kind = "rows"\nfeatures = 6\nbound = 1.0'
VIEWS = 'kind = "views"\nbounds = [1.0, 2.0]\n[data.x]\nfeatures = 4\n[data.y]\ncolumns = ["p", "q", "r"]'
SEVERAL = """kind = "views"
views = ["mri", "genes", "scores"]
bounds = [1.0, 2.0, 0.5]
[data.mri]
features = 4
[data.genes]
columns = ["p", "q", "r"]
[data.scores]
features = 2"""
RESPONSE = 'kind = "labelled"\nfeatures = 5\nbound = 1.0\ntarget = "y"\nresponse = [0, 10]'
CLASSES = 'kind = "labelled"\nfeatures = 5\nbound = 1.0\ntarget = "y"\nclasses = ["a", "b"]'
DOCUMENTS = 'kind = "documents"\nfeatures = 30'
TABLE = """kind = "table"
[data.columns]
age = { range = [18, 90] }
sex = { levels = ["F", "M"] }
seen = { range = ["2020-01-01", "2024-12-31"] }
arm = { levels = ["new", "old"] }
survival = { time = "days", event = "died", range = [0, 2000] }"""
SERIES = 'kind = "subjects"\nfeatures = 6\nbound = 1.0\nunit = "record"'

# analysis -> (parameters, data)
ANALYSES = {
    "summary": ('by = ["arm"]', TABLE),
    "group_contrast": ('contrast = "arm"\noutcomes = ["age"]\nsite = "sex"', TABLE),
    "heterogeneity": ('site = "sex"', TABLE),
    "harmonise": ('site = "sex"', TABLE),
    "mass_univariate": ('contrast = "arm"\ncovariates = ["age"]', TABLE),
    "generalized_linear_model": ('family = "gaussian"', RESPONSE),
    "kaplan_meier": ('by = ["arm"]', TABLE),
    "cox": ('columns = ["age", "arm"]', TABLE),
    "log_rank": ('by = ["arm"]', TABLE),
    "mean": ("", ROWS),
    "pca": ("n_components = 2\ncenter = false", ROWS),
    "correlation": ("", ROWS),
    "cca": ("n_components = 2\ncenter = false", VIEWS),
    "pls": ("n_components = 2", VIEWS),
    "multi_cca": ("n_components = 2\ncenter = false", SEVERAL),
    "kmeans": ("n_clusters = 3\nn_iter = 3", ROWS),
    "linear_regression": ("", RESPONSE),
    "logistic_regression": ("", CLASSES),
    "network_classifier": ("n_hidden = 4\nn_iter = 3", CLASSES),
    "topic_model": ("n_components = 3", DOCUMENTS),
    "mixture_model": ("n_components = 2\nnoise_variance = 0.002", ROWS),
    "joint_ica": ("n_components = 3", SERIES),
}
# What the audit's small instances are made of, as a study declares it.
AUDITED = {
    "rows": 'kind = "rows"\nfeatures = 6\nbound = 1.0',
    "views": VIEWS,
    "three_views": SEVERAL,
    "documents": DOCUMENTS,
    "two_classes": CLASSES,
    "three_classes": CLASSES.replace('["a", "b"]', '["a", "b", "c"]'),
    "response": RESPONSE,
    "counts": RESPONSE,
    "positive": RESPONSE,
    "time_points": SERIES,
    "people": SERIES.replace('"record"', '"subject"\nrows_per_subject = 8'),
    "table": """kind = "table"
[data.columns]
first = { range = [-1, 1] }
second = { range = [-1, 1] }
third = { levels = ["a", "b", "c"] }
group = { levels = ["x", "y"] }""",
    "followed": """kind = "table"
[data.columns]
survival = { time = "days", event = "died", range = [0, 2] }
other = { range = [-1, 1] }
group = { levels = ["x", "y"] }""",
}


def audited(analysis: str) -> tuple[str, str]:
    """Return parameters and data of a study like the first that is audited."""
    case = analyses()[analysis].audit[0]
    lines = [f"{name} = {json.dumps(value)}" for name, value in case.parameters.items()]
    return "\n".join(lines), AUDITED[case.records]


# An analysis that is not in the list is tried as it is audited.
ANALYSES |= {name: audited(name) for name, entry in analyses().items() if name not in ANALYSES and entry.audit}
# Code of one's own, or a loss that a study declares elsewhere.
del ANALYSES["polynomial_loss"]


def text_of(analysis: str = "pca") -> str:
    parameters, data = ANALYSES[analysis]
    return HEAD.format(analysis=analysis, parameters=parameters, data=data)
