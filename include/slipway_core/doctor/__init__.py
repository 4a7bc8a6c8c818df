"""What `slipway doctor` found out about an installation: lines, their report, and what makes a line ok or not.

Values in, lines out: what asks the servers is `slipway.doctor` of the plugins. A line that could not be examined is
`unknown`, never ok.
"""
