"""The mathematics of the family: pure functions, arrays in and arrays out, any float dtype."""
