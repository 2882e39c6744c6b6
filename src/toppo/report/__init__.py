"""Reading run directories: figures and statistics.  It does not know that training exists."""
