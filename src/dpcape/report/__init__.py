"""Reports: result and guarantee as one self-contained page."""
