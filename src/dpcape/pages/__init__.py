"""What all pages share: stylesheet, templates, inline pictures."""
