"""Descriptions of analyses: parameters, releases, shares of the budget and status, without their estimators."""
