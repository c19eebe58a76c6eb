"""Planning before anything is spent: which releases an analysis makes, what their noise costs, a page to try it."""
