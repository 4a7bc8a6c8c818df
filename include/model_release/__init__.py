"""The domain of a release: values in, values out. No Airflow, no network, no client, no clock of its own.

Rooms, from top to bottom; a room uses what is below it, never what is above or beside it: `reports`; `publishing`;
`gates` and `raise_permission`; `canary`, `rollout`, `record`, `triton_config`; `metrics`; `spec`; then the modules of
this folder, which every room may use.
"""
