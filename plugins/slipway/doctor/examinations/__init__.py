"""The examinations: a module for each, named as the examination."""
