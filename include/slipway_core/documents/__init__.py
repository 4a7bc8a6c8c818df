"""Documents that others wrote: YAML and JSON with the lines of their parts, and what is wrong with one."""
