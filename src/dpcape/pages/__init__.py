"""Stylesheet, templates, number formats and inline pictures of all pages."""
