"""A live server whose configuration somebody changes by hand, in its pod.

KServe's Triton takes no loads over its API. So who wants it otherwise edits the file in the pod and ends the server,
which comes up again with what lies there.
"""

from __future__ import annotations

import re
from pathlib import Path

import psutil

BY_HAND = "changed"
"""The parameter that the configuration has then, and the published one has not."""
_LINE = f'parameters {{ key: "{BY_HAND}" value {{ string_value: "by hand" }} }}'


def edit_configuration(root: Path, inference_service: str, model: str) -> None:
    """Edit the model's configuration in the pod of the only revision, and end its server.

    :param root: the folder of the cluster: servers of others are left alone.
    """
    pods = re.escape(str(root.resolve()))
    place = re.compile(
        rf"--model-repository=(?P<folder>{pods}/\S*/{inference_service}-predictor[^/\s]*/repository)"
    )
    for process in psutil.process_iter(["cmdline"]):
        found = place.search(" ".join(process.info["cmdline"] or ()))
        if found is not None:
            file = Path(found["folder"]) / model / "config.pbtxt"
            file.write_text(f"{file.read_text()}\n{_LINE}\n")
            process.terminate()
            return
    raise AssertionError(f"no server of {inference_service} runs")
