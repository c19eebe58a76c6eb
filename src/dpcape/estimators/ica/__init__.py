"""Joint independent components: private PCA, rotation and refinement, and public bases for maps."""
