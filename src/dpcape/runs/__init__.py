"""Running a study, and the folder it writes."""
