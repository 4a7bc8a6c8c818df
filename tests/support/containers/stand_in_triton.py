"""A stand-in for `nvcr.io/nvidia/tritonserver:…-py3`, for machines that reach no registry.

The stand-in for Python, and on it the `tritonserver` that the sandbox runs (from the wheel nvidia-pytriton), laid out
below /opt/tritonserver as in NVIDIA's image. Like that one it runs as root, has an entrypoint that greets and then
becomes the command, no `python` but `python3`, and bytecode of its standard library. It holds no GPU's libraries, the
Python backend only, and another version of the server.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from slipway_sandbox.host.images import image_source
from tests.support.containers.engine import Engine
from tests.support.containers.stand_in_base import PYTHON_IMAGE, Report, provide_python_base
from tests.support.serving.triton_install import triton_install

TRITON_IMAGE = "localhost/slipway-stand-in/tritonserver:py3"
ENTRYPOINT = """\
#!/bin/sh
echo "== a stand-in for the Triton Inference Server =="
exec "$@"
"""
CONTAINERFILE = f"""\
FROM {PYTHON_IMAGE}
COPY requirements.txt /tmp/requirements.txt
RUN pip install --no-cache-dir --no-deps --require-hashes -r /tmp/requirements.txt \\
    && python3 -m compileall -q -j 0 -x '/(site-packages|tests?|idle_test)/' /usr/local/lib/python3.11 \\
    && rm /tmp/requirements.txt /usr/local/bin/python
COPY --chmod=0755 entrypoint /opt/nvidia/nvidia_entrypoint.sh
COPY tritonserver /opt/tritonserver
ENV PATH=/opt/tritonserver/bin:/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin \\
    LD_LIBRARY_PATH=/usr/local/lib/python3.11/site-packages/nvidia_pytriton.libs:/usr/local/lib
WORKDIR /opt/tritonserver
ENTRYPOINT ["/opt/nvidia/nvidia_entrypoint.sh"]
"""


def provide_triton_base(engine: Engine, folder: Path, report: Report = print) -> str:
    """Return the name of the stand-in, which is built anew where the sandbox's server has changed.

    :raises NoEngineError: what it is built with is not there.
    """
    provide_python_base(engine, folder, report)
    report(f"building {TRITON_IMAGE}")
    with tempfile.TemporaryDirectory() as text:
        context = Path(text)
        shutil.copytree(triton_install().directory, context / "tritonserver")
        shutil.copyfile(image_source("triton").requirements, context / "requirements.txt")
        (context / "entrypoint").write_text(ENTRYPOINT, encoding="utf-8")
        (context / "Containerfile").write_text(CONTAINERFILE, encoding="utf-8")
        engine.build(context / "Containerfile", context, TRITON_IMAGE)
    return TRITON_IMAGE
