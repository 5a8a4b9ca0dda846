"""Where rows can live and be worked on beside the memory of this machine."""
