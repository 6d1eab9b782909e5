"""Train the tiny tool-calling model from scratch on one CPU thread, and write a GGUF.

    python train.py --minutes 45 --seed 1 --out tools.gguf

`--steps` instead of `--minutes` makes the run repeatable: the learning rate then follows the step count and not the
clock. The file is written anew whenever the held-out check gets better. Needs torch (CPU is enough), tokenizers, gguf
and numpy.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from dialogues import Maker
from model import Llama, Shape, load, save
from template import render
from tokenizers import Tokenizer
from torch import Tensor, nn
from vocabulary import build_tokenizer, encode, tokenizer_of

LONGEST = 448  # tokens; longer dialogues are left out
POOL = 400  # dialogues that are sorted by length together
HELD_OUT = 160  # dialogues of the check
WARM_UP = 40  # steps until the learning rate is full
FIRST_LESSONS = 0.06  # of the run, in which every dialogue is easy

Row = tuple[list[int], list[bool]]
"""The tokens of a dialogue, and for each whether the model has to produce it."""

Batch = tuple[Tensor, Tensor]
"""The same for several dialogues, padded."""

Optimisers = list[tuple[torch.optim.Optimizer, float]]
"""Each with its full learning rate."""


# -- data --------------------------------------------------------------------------------------------------------


def batches(maker: Maker, tokenizer: Tokenizer, budget: int, easy: Callable[[], float]) -> Iterator[Batch]:
    """Endless batches of about `budget` tokens, dialogues of like length together. `easy`: the share of easy ones."""
    while True:
        pool = []
        for _ in range(POOL):
            row = encode(tokenizer, render(maker.dialogue(easy=maker.rng.random() < easy())))
            if len(row[0]) <= LONGEST:
                pool.append(row)
        pool.sort(key=lambda row: len(row[0]))
        groups: list[list[Row]] = []
        group: list[Row] = []
        for row in pool:
            if group and (len(group) + 1) * len(row[0]) > budget:
                groups.append(group)
                group = []
            group.append(row)
        groups.append(group)
        maker.rng.shuffle(groups)
        yield from map(padded, groups)


def padded(rows: list[Row]) -> Batch:
    size = len(rows), max(len(ids) for ids, _ in rows)
    all_ids, all_learn = torch.zeros(size, dtype=torch.long), torch.zeros(size, dtype=torch.bool)
    for number, (ids, learn) in enumerate(rows):
        all_ids[number, : len(ids)] = torch.tensor(ids)
        all_learn[number, : len(learn)] = torch.tensor(learn)
    return all_ids, all_learn


def held_out(tokenizer: Tokenizer) -> list[Batch]:
    maker = Maker(random.Random(4242), held_out=True)
    rows = [encode(tokenizer, render(maker.dialogue())) for _ in range(HELD_OUT)]
    rows.sort(key=lambda row: len(row[0]))
    return [padded(rows[at : at + 10]) for at in range(0, HELD_OUT, 10)]


# -- training ----------------------------------------------------------------------------------------------------


@torch.no_grad()
def check(model: Llama, tests: list[Batch]) -> tuple[float, float]:
    """Share of right tokens, and of dialogues without one wrong token."""
    good = total = right = 0
    for ids, learn in tests:
        with torch.autocast("cpu", torch.bfloat16):
            hit = model.head(model(ids[:, :-1])).argmax(-1) == ids[:, 1:]
        wanted = learn[:, 1:]
        good += (hit & wanted).sum().item()
        total += wanted.sum().item()
        right += (hit | ~wanted).all(1).sum().item()
    return good / total, right / sum(len(ids) for ids, _ in tests)


def optimisers(model: Llama, rate: float) -> Optimisers:
    """Muon for the matrices, AdamW for embeddings, norms and biases."""
    named = list(model.named_parameters())
    matrices = [parameter for name, parameter in named if parameter.ndim == 2 and "token_embd" not in name]
    rest = [parameter for name, parameter in named if parameter.ndim != 2 or "token_embd" in name]
    return [
        (torch.optim.Muon(matrices, lr=rate, momentum=0.95, weight_decay=0.01), rate),
        (torch.optim.AdamW(rest, lr=rate / 6, betas=(0.9, 0.98), weight_decay=0.0), rate / 6),
    ]


def step(model: Llama, optimisers: Optimisers, batch: Batch, scale: float) -> float:
    """One update with `scale` times the full learning rates. Returns the loss."""
    for optimiser, rate in optimisers:
        for group in optimiser.param_groups:
            group["lr"] = rate * scale
    ids, learn = batch
    target = learn[:, 1:]
    with torch.autocast("cpu", torch.bfloat16):
        logits = model.head(model(ids[:, :-1])[target])
    loss = F.cross_entropy(logits.float(), ids[:, 1:][target])
    model.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for optimiser, _ in optimisers:
        optimiser.step()
    return loss.item()


def begin(options: argparse.Namespace) -> tuple[Llama, Tokenizer]:
    """A new model, or the one to go on with."""
    tokenizer = tokenizer_of(options.init) if options.init else build_tokenizer(options.seed, options.vocab)
    shape = Shape(
        vocab=tokenizer.get_vocab_size(),
        dim=options.dim,
        layers=options.layers,
        heads=options.heads,
        hidden=options.hidden,
    )
    model = Llama(shape)
    if options.init:
        load(model, options.init)
    print("parameters", sum(p.numel() for p in model.parameters()), "vocabulary", shape.vocab, flush=True)
    return model, tokenizer


def train(options: argparse.Namespace) -> None:
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    model, tokenizer = begin(options)
    tests, updates = held_out(tokenizer), optimisers(model, options.lr)
    start, done, steps, best = time.time(), 0.0, 0, -1.0
    losses: list[float] = []

    def easy() -> float:
        return 1.0 if done < FIRST_LESSONS and not options.init else options.easy[done > 0.35]

    source = batches(Maker(random.Random(options.seed)), tokenizer, options.batch, easy)
    while done < 1:
        scale = min(1, (steps + 1) / WARM_UP, (1 - done) / options.decay)
        losses.append(step(model, updates, next(source), scale))
        steps += 1
        took = time.time() - start
        done = steps / options.steps if options.steps else took / 60 / options.minutes
        if steps % 25 == 0:
            print(f"step {steps} {took:.0f} s done {done:.3f} loss {sum(losses[-25:]) / 25:.4f}", flush=True)
        if steps % options.check_every == 0 or done >= 1:
            share, exact = check(model, tests)
            print(f"  held out: tokens {share:.4f}, dialogues without error {exact:.3f}", flush=True)
            if exact >= best:
                best = exact
                save(model, tokenizer, options.out)
    print("best", best)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--out", default="tools.gguf")
    add("--seed", type=int, default=1)
    add("--minutes", type=float, default=45)
    add("--steps", type=int, default=0, help="stop after this many steps, ignore the clock")
    add("--threads", type=int, default=1)
    add("--dim", type=int, default=192)
    add("--layers", type=int, default=4)
    add("--heads", type=int, default=4)
    add("--hidden", type=int, default=512)
    add("--vocab", type=int, default=900)
    add("--batch", type=int, default=4000, help="tokens per step")
    add("--lr", type=float, default=0.02)
    add("--decay", type=float, default=0.6, help="last part of the run, in which the rate falls to 0")
    add("--easy", type=float, nargs=2, default=(0.5, 0.15), help="share of easy dialogues before and after 35 %%")
    add("--init", help="go on from this GGUF of an earlier run of the same shape (use another seed)")
    add("--check-every", type=int, default=200)
    train(parser.parse_args())


if __name__ == "__main__":
    main()
