"""Studies: algorithms x environments x seeds as data, run on one machine or on a cluster."""
