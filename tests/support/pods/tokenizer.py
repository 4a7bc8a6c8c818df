"""A tokenizer of ten words for genai-perf, made by a program that runs with the image's own Python."""

from __future__ import annotations

WORDS = "the quick brown fox jumps over a lazy dog"
MAKE_TOKENIZER = f"""
import sys
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
tokenizer = Tokenizer(models.WordLevel(unk_token="[UNK]"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer.train_from_iterator([{WORDS!r}], trainers.WordLevelTrainer(special_tokens=["[UNK]"]))
tokenizer.save(sys.argv[1])
"""
TOKENIZER_CONFIG = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]"}
