"""What a parameter's name says it is for: widths and heads of constructors, streams, masks, caches and options of calls.

Only words with a settled use in published attention code are listed; anything else is "unknown" and is found by trying.
"""

from __future__ import annotations

import re
from typing import Any

SIZES: dict[str, Any] = {  # role -> the value that a constructor gets; pairwise different where axes could be mixed up
    "width": 32, "out_width": 32, "context_width": 32, "num_heads": 4, "num_kv_heads": 2,
    "head_dim": 8, "dropout": 0.1, "length": 64, "window": 4, "shift": 2, "grid": 8, "batch": 4, "reduction": 4,
    "layers": 1, "layer_index": 0, "vocabulary": 50, "bias": True, "causal": True, "batch_first": True, "count": 4,
    "scale": None, "stride": 1, "axis": -1, "fill": 0,
}  # fmt: skip

CONSTRUCTOR = {  # role -> pattern on the whole name; first match wins
    "stride": r"(.*_)?stride|sr_?ratio|groups?_?conv|dilation",
    "axis": r"(.*_)?axis",
    "fill": r"(pad(ding)?_?(value|idx|index|token)|ignore_index|eps_?pad)",
    "dropout": r".*(drop|dropout).*|p_?drop.*",
    "num_kv_heads": r".*(kv_?heads?|num_key_value_heads|n_?kv_?h(ead)?s?|kv_?groups?|num_groups?_kv)|num_query_groups|n_kv|kv",
    "num_heads": r"(n|num|nb|number_of)?_?(attention_|attn_|self_)?heads?(_num|_count|s)?|nhead|n_?h|h|num_attention_heads|heads?_num",
    "head_dim": r"(head_?(dim|size|width|channels)|dim_?(per_)?head|d_?head|d_?k|d_?v|d_?q|d_?kv|head_features|attn_head_dim|dim_(qk|v|k)|key_dim|value_dim|qk_dim|kdim|vdim)",
    "context_width": r"(context|cross|memory|kv|enc(oder)?|cond|y|source|src|text)_?(attention_)?(dim|width|channels|size|hidden_size|features)|dim_(context|kv|cond)",
    "window": r"(window|win|local|attention_?window|block|chunk|bucket|patch|group|neighbou?rhood|halo|kernel)_?(size|width|len(gth)?|radius)?|ws|w_?size|k(ernel)?(_size)?|sliding_window|radius|block_?len",
    "shift": r"shift(_?size)?",
    "grid": r"(input_?|img_?|image_?|feat_?|fmap_?)?(resolution|res|size|fmap|hw|img_size|feature_size|spatial)|(img_?|image_?|input_?|feat_?|fmap_?)(h|w|height|width)|height|[hw]_s|resolutions?|fmap_?size|im_?size|size_hw",
    "length": r"(max_?)?(seq(uence)?_?)?(len(gth)?|positions?|tokens|ctx|context_?len(gth)?|seqlen|seq_len|block_size|n_ctx|num_patches|num_tokens|slots|cache_?size|cache_?len)|max_?(seq|len|pos|position|seq_len|length|position_embeddings|context|cache|cache_len|tokens).*|n_positions|seq_?len|n",
    "batch": r"(max_?)?b(atch)?(_?size)?(es)?|max_batch(_size)?",
    "reduction": r"(reduction|ratio|squeeze_?factor|r|reduction_?ratio|rd_ratio|divisor|expansion)",
    "width": r"(d|dim|width|emb(ed)?(ding)?(_?(dim|size|dims|width))?|d_?model|n_?embd?|hidden(_?(dim|size|dims|features|channels))?|model_?dim|channels?|in_?(channels?|dim|features|planes|planes|size|feats?)|c|c_in|inp|nc|ch|input_?(dim|size|channels|features)|feat(ures?)?(_?dim)?|size|n(um)?_?(channels|features|hiddens)|n_?(feat|hidden|state|units)|units|q_?dim|query_?dim|dim_(in|model|q|query)|in_dims?|planes|gate_channels|channel|F_g|F_l|n_embd|dimensions?|attention_?dim|attn_?dim|inner_dim)",
    "out_width": r"(out(put)?_?(dim|channels?|features|size|planes)?|dim_out|oup|d_?out|c_out|dim_v(alue)?|mid(dle)?_?(channels|dim|planes)|d_ff|d_?inner|mlp_?dim|ffn?_?(dim|size|hidden.*)|intermediate_size|dim_feedforward|hid|d_?hidden|m|rank|latent_?dim|kv_?rank)",
    "layers": r"(n_?layers?|num_?layers?|depth|layers|num_hidden_layers|num_blocks|n_blocks|blocks)",
    "layer_index": r"layer_?(idx|index|id|number|num)|depth_index|block_idx",
    "vocabulary": r"(vocab(_?size)?|n_?vocab|num_?tokens|num_embeddings|n_?tokens|src_vocab.*|tgt_vocab.*)",
    "bias": r"(qkv_|attn_|proj_|use_|out_|add_)?bias|use_bias|attention_bias",
    "causal": r"(is_?)?(causal|autoregressive|masked|unidirectional|decoder|is_decoder)",
    "batch_first": r"batch_?first",
    "scale": r"(qk_?)?scale|temperature|softmax_scale|tau|scaling",
    "count": r"(num|n)_?(slots?|landmarks|latents?|mem(ory)?(_?kv|_?slots|_?tokens)?|hashes|buckets|features|queries|clusters|global|memories|experts|iters?|random.*|dims|points|nodes|groups?)|(mem|s|S|slots|latents|landmarks|hashes|nb_features|iters|groups?)|(num|n)_[a-z]+",
}

CALL = {
    "cache_option": r"(use|return|update|return_new|write|store)_?(kv_?)?cache|use_past|return_past|decode|incremental|is_decoding",
    "cache_position": r"(cache_?pos(ition)?s?|input_?pos|start_?(pos|index)?|offset|pos_?offset|position_?offset|seq_?offset|past_?len(gth)?|cur(rent)?_?pos|step|t0|pos)",
    "cache": r"(layer_)?past.*|.*cache.*|incremental_state|(kv_?|prev_?|recurrent_?|inference_?)(state|params)|prev_?(kv?|v|keys?|values?)|(kv?|v|keys?|values?)_?prev|memo|mems",
    "lengths": r"(?!(query|q|kv|past)_)(.*_)?(len|lens|lengths?|valid_?lens?|seq_?lens?|n_valid|num_valid|sizes)|(n|num|nb|number_of)_(real_)?(words|tokens|frames|nodes|points|elements|chars|patches|regions|objects|items|sentences|keys|entities|agents|instances|atoms|residues)|(word|token|frame|node|point|element|patch|region|object|item|sentence|key|agent|atom)_counts?",
    "left_out": r".*head_?mask.*|block_?mask|.*mask_(fn|func|mod)",
    "mask": r".*(mask|pad|padding|valid|keep|visible).*|adj(acency)?(_?mat(rix)?)?|(is_|was_)?((entity|entities|agents?|nodes?|objects?|tokens?|slots?|items?|units?|keys?|points?|words?|frames?)_)?(is_)?(absent|missing|exists?|alive|dead|occupied|inactive|ignored?|present)",
    "segments": r"(doc(ument)?|seg(ment)?|seq(uence)?|sample|packed?)s?_(ids?|idx|ind(ex|ices))|segments?",
    "bias": r".*(bias|rel_?pos|relative|pos_?emb|position_embeddings?|freqs?(_cis)?|rotary.*|rope|sin|cos|alibi).*",
    "positions": r"(position_?ids?|positions?|pos_?ids|coords?|timestamps?)",
    "grid": r"(hw|height|width|x_?size|spatial_?(shape|size)|input_resolution|resolution|size|shape)",
    "return_option": r"(?!.*(embed|hidden|logits|loss))(need|return|output|get|with|ret|save|keep|show|give|want)_?.*(weights?|attn|att|attentions?|scores?|probs?|map|maps|aux|intermediates?|entropy|lse).*|average_attn_weights|verbose|debug|visuali[sz]e",
    "path_option": r"(use_?)?(flash|sdpa|fused|fast|efficient|checkpoint(ing)?|xformers|compile|math|triton|flash_attn|eager|native|optimi[sz]ed).*",
    "causal_option": r"(is_?)?causal|use_?causal(_?mask)?|autoregressive|apply_mask|masked",
    "query": r"(q|qk|query|queries|query_?(states|layer|input|tokens|feats?|embed)|input_q|x_?q|q_?(x|in|inp|input|states)|tgt|target|trg|dec(oder)?_?(x|input|hidden|states|out)?|latents?|slots?|hidden_q|xq|Q)",
    "key": r"(k|key|keys|key_?(states|layer|input|tokens|feats?)|input_k|x_?k|k_?(x|in|inp|input|states)|xk|K)",
    "value": r"(v|value|values|value_?(states|layer|input|tokens|feats?)|input_v|x_?v|v_?(x|in|inp|input|states)|xv|V)",
    "context": r"(ctx|context(s)?|memory|mem|encoder_?.*|enc(_?out(put)?s?)?|kv|x_?kv|kv_?(x|in|input|states)|y|cond(itioning)?|other|support|sources?|src|text(_?embed.*)?|s|cross.*|key_?value(s|_states)?|inputs_kv|input_kv|media|image_?feats?|inputs|x2|z|passage|document|sentence|annotations?|key_value_states|encoder_hidden_states)",
    "self": r"(x|xs|h|hidden(_states?)?|hiddens|inputs?|inp|tokens?|feat(ure)?s?|feature_?maps?|fmap|img|images?|seq(uence)?s?|emb(ed)?(ding)?s?|src|patches|bag|X|data|batch|tensor|states?|residual|input_?(tensor|ids)?|x1|f0|f1|a|b|signal)",
}

_compiled: dict[str, list[tuple[str, re.Pattern[str]]]] = {
    "constructor": [(role, re.compile(p)) for role, p in CONSTRUCTOR.items()],
    "call": [(role, re.compile(p)) for role, p in CALL.items()],
}


def constructor_role(name: str) -> str | None:
    """The role of a constructor parameter, or None when its name says nothing we know."""
    return _role("constructor", name)


def call_role(name: str) -> str | None:
    """The role of a forward parameter, or None when its name says nothing we know."""
    return _role("call", name)


def _role(table: str, name: str) -> str | None:
    bare = name.strip("_")
    plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", bare).lower() if len(bare) > 1 else bare
    for role, pattern in _compiled[table]:
        if pattern.fullmatch(plain) or pattern.fullmatch(bare):
            return role
    return None
