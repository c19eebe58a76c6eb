"""Result and guarantee as one self-contained page."""
