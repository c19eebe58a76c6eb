"""The figures as their authors ran them, for comparison with the numbers that they published."""
