"""Ask an API server all questions and keep its answers.

python -m tests.support.cluster.questions.record --url https://… --token-file FILE [--ca-file FILE] [--to FILE]

The server needs the namespaces `models` and `default`, KServe with the default mode Standard, and Gateway API.
"""

from __future__ import annotations

import argparse
import json
import ssl
from pathlib import Path

from tests.support.cluster.questions.asking import ApiServer, ask_all
from tests.support.cluster.questions.recorded import ANSWERS, line_of
from tests.support.cluster.questions.table import QUESTIONS


def record(server: ApiServer, path: Path) -> None:
    """Write what the server answers; the file is the same at the next recording if the server answers the same."""
    answers = ask_all(server, QUESTIONS)
    lines = [json.dumps(line_of(one, answers[one.name]), ensure_ascii=False) + "\n" for one in QUESTIONS]
    path.write_text("".join(lines), encoding="utf-8")


def main() -> None:
    """Read the arguments and record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True, help="the API server")
    parser.add_argument(
        "--token-file", type=Path, required=True, help="a bearer token that may do everything"
    )
    parser.add_argument("--ca-file", help="the authority of its certificate")
    parser.add_argument("--to", type=Path, default=ANSWERS, help="where the answers are written")
    arguments = parser.parse_args()
    context = ssl.create_default_context(cafile=arguments.ca_file) if arguments.ca_file else None
    token = arguments.token_file.read_text(encoding="utf-8").strip()
    record(ApiServer(arguments.url.rstrip("/"), token, context), arguments.to)


if __name__ == "__main__":
    main()
