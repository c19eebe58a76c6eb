"""Networks: classifiers trained by private rounds of gradients."""
