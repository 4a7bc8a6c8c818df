"""Absolute paths in parameters: rewritten for the staging server, or refused where nobody says how it sees files."""

from __future__ import annotations

from typing import Any

import pytest

from slipway_core.errors import LoadRefusedError, ModelInvalidError
from slipway_core.triton_config.staged_paths import names_files, on_staging

_NAMES = {"chat": "chat_baseline", "chat_tensorrt_llm": "chat_baseline__chat_tensorrt_llm"}


def bundle(**parameters: str) -> dict[str, dict[str, Any]]:
    """An ensemble whose member has parameters."""
    values = {key: {"string_value": value} for key, value in parameters.items()}
    return {"chat": {"name": "chat"}, "chat_tensorrt_llm": {"name": "x", "parameters": values}}


def moved(configs: dict[str, Any], **options: Any) -> dict[str, str]:
    """The member's parameters on a staging server that sees its repository at /mnt/staging/."""
    options = {"repository_path": "/mnt/staging/", "connection": "triton_staging", **options}
    parameters = on_staging(configs, _NAMES, **options)["chat_tensorrt_llm"]["parameters"]
    return {key: value["string_value"] for key, value in parameters.items()}


def test_paths_below_the_serving_root_get_the_staged_names() -> None:
    """Root and model are replaced, version and file stay; what is no such path stays as it is."""
    configs = bundle(
        gpt_model_path="/mnt/models/chat_tensorrt_llm/7",
        tokenizer_dir="/mnt/models/chat_tensorrt_llm/7/tokenizer",
        root="/mnt/models",
        elsewhere="/mnt/models-of-others/chat/7",
        word="mnt/models/chat",
    )
    assert moved(configs) == {
        "gpt_model_path": "/mnt/staging/chat_baseline__chat_tensorrt_llm/7",
        "tokenizer_dir": "/mnt/staging/chat_baseline__chat_tensorrt_llm/7/tokenizer",
        "root": "/mnt/staging",
        "elsewhere": "/mnt/models-of-others/chat/7",
        "word": "mnt/models/chat",
    }
    given = configs["chat_tensorrt_llm"]["parameters"]["gpt_model_path"]
    assert given == {"string_value": "/mnt/models/chat_tensorrt_llm/7"}


def test_the_root_is_the_conversions() -> None:
    """A repository that is served from elsewhere has its paths below that root, the longest that fits."""
    configs = bundle(engine="/srv/models/chat/1/engine")
    assert moved(configs, roots={"/srv/", "/srv/models/"}) == {
        "engine": "/mnt/staging/chat_baseline/1/engine"
    }


def test_without_a_mount_nothing_is_loaded() -> None:
    """The refusal names connection, extra, and each parameter; without paths there is nothing to refuse."""
    configs = bundle(gpt_model_path="/mnt/models/chat_tensorrt_llm/7")
    assert names_files(configs)
    with pytest.raises(
        LoadRefusedError,
        match=r"`repository_path` of the connection 'lab'.*`gpt_model_path` of 'chat_tensorrt_llm'",
    ):
        moved(configs, repository_path=None, connection="lab")
    assert not names_files(bundle(word="x"))
    assert moved(bundle(word="x"), repository_path=None) == {"word": "x"}


def test_a_path_into_another_model_is_refused() -> None:
    """What is not part of the version is not on staging."""
    with pytest.raises(ModelInvalidError, match=r"`gpt_model_path` of 'chat_tensorrt_llm'.*found other"):
        moved(bundle(gpt_model_path="/mnt/models/other/7"))
