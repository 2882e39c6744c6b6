"""What a person sees on a terminal while a run trains."""
