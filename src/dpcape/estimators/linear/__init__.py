"""Models with a linear predictor: least squares, logistic and other responses, polynomial losses."""
