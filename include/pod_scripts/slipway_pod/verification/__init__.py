"""A published version read with distrust: its manifest and its signature."""
