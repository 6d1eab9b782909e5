"""Write weights of the llama architecture and a byte-level BPE vocabulary to one f16 GGUF file.

Needs gguf and numpy.
"""

from __future__ import annotations

import gguf
import numpy as np

__all__ = ["write_gguf"]


def write_gguf(
    path: str,
    *,
    name: str,
    tokens: list[str],
    merges: list[tuple[str, str]],
    special: list[str],
    template: str,
    weights: dict[str, np.ndarray],
    dim: int,
    layers: int,
    heads: int,
    hidden: int,
    context: int,
    rope_base: float,
) -> None:
    """Write the file.

    Args:
        path: where.
        name: what the model is called.
        tokens: the vocabulary, in the order of the ids.
        merges: the BPE's merges, in order.
        special: end of text, message start, message end, then the markers that stay visible.
        template: the chat template.
        weights: by their GGUF names (``blk.0.attn_q.weight``); matrices are stored as f16, vectors as f32. Without
            ``output.weight`` llama.cpp uses the embedding for the output.
        dim: size of the embedding.
        layers: number of blocks.
        heads: attention heads of each.
        hidden: size of the feed-forward layer.
        context: longest text, in tokens.
        rope_base: base of the rotary frequencies.
    """
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name(name)
    writer.add_context_length(context)
    writer.add_embedding_length(dim)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(hidden)
    writer.add_head_count(heads)
    writer.add_head_count_kv(heads)
    writer.add_rope_dimension_count(dim // heads)
    writer.add_rope_freq_base(rope_base)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_merges([" ".join(merge) for merge in merges])
    control, visible = gguf.TokenType.CONTROL, gguf.TokenType.USER_DEFINED
    kinds = {token: control if number < 3 else visible for number, token in enumerate(special)}
    writer.add_token_types([int(kinds.get(token, gguf.TokenType.NORMAL)) for token in tokens])
    writer.add_bos_token_id(tokens.index(special[0]))
    writer.add_pad_token_id(tokens.index(special[0]))
    writer.add_eos_token_id(tokens.index(special[2]))
    writer.add_add_bos_token(False)
    writer.add_chat_template(template)
    for key, value in weights.items():
        writer.add_tensor(key, np.ascontiguousarray(value, dtype=np.float16 if value.ndim == 2 else np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
