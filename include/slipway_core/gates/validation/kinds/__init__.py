"""Kinds of answers whose figures are means over the rows: vectors, detections, segmentation, ranking."""
