"""The domain of a release: values in, values out. No Airflow, no network, no client, no clock of its own.

Packages from top to bottom; each uses only what is below it, and import-linter holds that (`pyproject.toml`):

- `reports`, `acts`, `monitoring`: what people read, what they may ask for, and numbers for their dashboards;
- `read_model`: what pages and the command line show, folded from the records;
- `publishing`, `tuning`: a published version, and the search for faster settings;
- `gates`, `fleet`, `operations`, `permission`: what a version must prove before
  users meet it, many servers as one, what is done after the release day, who may raise traffic;
- `canary`, `rollout`, `record`, `triton_config`: the judge, the InferenceService, the record, config.pbtxt;
- `metrics`: what users met, in windows;
- `spec`: the release file, typed;
- `documents`, `s3_events`, `http_answers` and the modules of this folder, which every package may use.

`docs/architecture.md` draws them together with the rest of the project.
"""
