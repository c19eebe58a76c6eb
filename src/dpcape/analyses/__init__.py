"""One description per analysis: parameters, releases, shares and standing, without its estimator."""
