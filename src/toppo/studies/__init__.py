"""Studies: algorithms x environments x seeds as data, carried out on one machine or on a cluster."""
