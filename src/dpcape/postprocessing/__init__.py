"""Post-processing of released moments that several families share: pure functions that never read records."""
