"""The tiny model's vocabulary: a byte-level BPE that spells unseen words the same everywhere.

Needs tokenizers and gguf.
"""

from __future__ import annotations

import json
import random
from collections import Counter

import gguf
from dialogues import Maker
from template import SPECIAL, render
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

__all__ = ["build_tokenizer", "encode", "tokenizer_of"]

SPACED = 120  # tokens that carry the space before them
CORPUS = 5000  # dialogues that the merges are learned from

Merges = list[tuple[str, str]]


def build_tokenizer(seed: int, size: int) -> Tokenizer:
    """Byte-level BPE in which a word has the same pieces after a space as after a quote.

    Merges are learned with spaces and digits kept apart, so that no piece of an unseen word carries a space and every
    digit is a token. Then `SPACED` very frequent whole words (" weather") and JSON punctuation (' "') get a merge with
    their space, which comes last and shortens the text.
    """
    maker = Maker(random.Random(seed))
    corpus = ["".join(text for text, _ in render(maker.dialogue())) for _ in range(CORPUS)]
    vocab, merges = _learn(corpus, size - SPACED)
    after_space = Counter(word for text in corpus for word in text.replace("\n", " \n ").split(" "))
    frequent = Counter({token: after_space[token] for token in vocab if _is_word(token)})
    for piece in ['"', '{"', *(token for token, _ in frequent.most_common(SPACED - 2))]:
        vocab["Ġ" + piece] = len(vocab)
        merges.append(("Ġ", piece))
    return _byte_level(vocab, merges)


def tokenizer_of(path: str) -> Tokenizer:
    """The vocabulary that a GGUF holds."""
    fields = gguf.GGUFReader(path).fields
    tokens, merges = (fields[f"tokenizer.ggml.{name}"].contents() for name in ("tokens", "merges"))
    vocab = {token: number for number, token in enumerate(tokens)}
    return _byte_level(vocab, [_pair(merge) for merge in merges])


def encode(tokenizer: Tokenizer, pieces: list[tuple[str, bool]]) -> tuple[list[int], list[bool]]:
    """Token ids and, for each, whether the model has to produce it."""
    ids: list[int] = []
    learn: list[bool] = []
    encodings = tokenizer.encode_batch([text for text, _ in pieces])
    for encoding, (_, target) in zip(encodings, pieces, strict=True):
        ids += encoding.ids
        learn += [target] * len(encoding.ids)
    return ids, learn


def _learn(corpus: list[str], size: int) -> tuple[dict[str, int], Merges]:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(" ", "isolated"),
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=SPECIAL,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(corpus, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return model["vocab"], [_pair(merge) for merge in model["merges"]]


def _byte_level(vocab: dict[str, int], merges: Merges) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(SPECIAL)
    return tokenizer


def _pair(merge: str | list[str]) -> tuple[str, str]:
    """Versions of the library write merges as text or as pairs."""
    left, right = merge.split(" ") if isinstance(merge, str) else merge
    return left, right


def _is_word(token: str) -> bool:
    return token.isalpha() and token.isascii() and (len(token) > 3 or token in ("the", "and", "for"))
