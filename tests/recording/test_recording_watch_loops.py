"""`watch` in other people's loops: accumulation, checkpoints, TensorBoard, the Trainer of Hugging Face, Lightning; and what it costs."""

import importlib.util
import pathlib
import runpy
import statistics
import sys
import time
import types
import warnings

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from watched import Attention, Fused, Tagger, batches, built, loss_of, shifted, train

import regard
from regard.core.errors import MissingExtraError

COST = 0.05  # of the run's CPU time at every=50: the promise


def test_with_gradient_accumulation_a_step_is_one_record():
    model = built(lambda: Tagger(Attention))
    data = batches(12)
    with regard.watch(model, every=2) as run:
        for _ in range(4):
            for _ in range(3):
                loss = loss_of(model, *next(data))
                loss.backward()
            run.step(loss)
    assert [(r["step"], r["layer"]) for r in run.rows if "entropy" in r] == [(0, 0), (0, 1), (2, 0), (2, 1)]


def test_recomputation_under_gradient_checkpointing_is_not_taken_for_another_pass():
    class Saving(Tagger):
        def forward(self, ids):
            x = self.embed(ids) + self.place
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=False)
            return self.head(self.norm(x))

    plain, model = built(lambda: Saving(Attention)), built(lambda: Saving(Attention))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        expected = train(plain, batches(4))
        torch.manual_seed(0)
        with regard.watch(model, every=1) as run:
            losses = train(model, batches(4), run)
    assert losses == expected
    assert all(row["grad_query"] > 0 for row in run.rows if "entropy" in row)
    assert sorted({row["layer"] for row in run.rows if "layer" in row}) == [0, 1]


@pytest.mark.slow
@pytest.mark.parametrize("whole", [True, False])
def test_a_compiled_model_is_watched_and_trains_as_without(whole):
    def run_of(watching):
        model = built(lambda: Tagger(Fused))
        compiled = torch.compile(model, backend="eager")
        run = regard.watch(compiled if whole else model, every=2) if watching else None
        with warnings.catch_warnings():
            if not whole:  # watching the inside of a compiled model: torch says that hooks are up
                warnings.simplefilter("ignore")
            losses = train(compiled, batches(5), run)
        if run is not None:
            run.close()
        return losses, run

    (expected, _), (losses, run) = run_of(False), run_of(True)
    assert losses == pytest.approx(expected, rel=1e-5)
    assert [(r["step"], r["layer"]) for r in run.rows if "entropy" in r] == [(s, n) for s in (0, 2, 4) for n in (0, 1)]
    assert all(r["grad_query"] > 0 for r in run.rows if "entropy" in r)


def test_a_model_called_through_its_parts_is_seen():
    model = built(lambda: Tagger(Attention))
    with regard.watch(model, every=1) as run:
        ids, _ = next(batches(1))
        model.blocks[1](model.embed(ids)).sum().backward()
        run.step(1.0)
    assert [row["path"] for row in run.rows if "entropy" in row] == ["blocks.1.attention"]


def test_scalars_go_to_a_writer_of_tensorboard():
    seen = []
    writer = types.SimpleNamespace(add_scalar=lambda *a: seen.append(a))
    model = built(lambda: Tagger(Attention))
    with regard.watch(model, every=1, tensorboard=writer) as run:
        train(model, batches(2), run)
    heads = next(r["entropy"] for r in run.rows if r.get("layer") == 1)
    assert ("attention/layer 1/entropy", pytest.approx(sum(heads) / len(heads)), 0) in seen
    assert {step for name, _, step in seen if name == "train/loss"} == {0, 1}


@pytest.mark.skipif(importlib.util.find_spec("tensorboard") is not None, reason="TensorBoard is installed here")
def test_without_tensorboard_a_folder_is_ignored_and_the_run_goes_on(tmp_path):
    with regard.watch(nn.Linear(2, 2), every=1, tensorboard=tmp_path / "board") as run:
        run.step(1.0)
    assert not (tmp_path / "board").exists()


def tiny_gpt():
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        vocab_size=24, n_positions=16, n_embd=32, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=1
    )
    return built(lambda: transformers.GPT2LMHeadModel(config))


def hugging_face(name):
    """A model of two layers with random weights."""
    tf = pytest.importorskip("transformers")
    small = {
        "vocab_size": 24,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
    }
    if name == "Bert":
        return tf.BertForMaskedLM(tf.BertConfig(**small))
    if name == "Llama with grouped heads":
        return tf.LlamaForCausalLM(tf.LlamaConfig(**small, num_key_value_heads=2, max_position_embeddings=16))
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
    return tf.T5ForConditionalGeneration(tf.T5Config(vocab_size=24, **sizes, decoder_start_token_id=0))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "layers"), [("Bert", 2), ("Llama with grouped heads", 2), ("T5", 6)])
def test_models_of_transformers_are_read_in_full_and_found_healthy(name, layers):
    model = built(lambda: hugging_face(name))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    with torch.random.fork_rng(), regard.watch(model, every=2) as run:
        torch.manual_seed(0)
        model.train()
        for ids, _ in batches(8, padded=True):
            loss = model(input_ids=ids, attention_mask=(ids != 0).long(), labels=ids.masked_fill(ids == 0, -100)).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            run.step()  # the loss is the model's own
    rows = [r for r in run.rows if "entropy" in r]
    assert {r["layer"] for r in rows} == set(range(layers))
    assert all(r["grad_query"] > 0 and r["grad_key"] > 0 and r["grad_value"] > 0 for r in rows)
    assert all(r["heads"] == len(r["logit_std"]) == 4 and r["scale"] > 0 for r in rows)
    assert [r["step"] for r in run.rows if "losses" in r] == [0, 2, 4, 6]
    assert run.diagnosis().names() == []
    assert run.diagnosis().notes == []
    padding = [r["padding"] for r in run.rows if "padding" in r]
    assert bool(padding) == (name != "Llama with grouped heads")  # padding behind a causal mask is not judged
    assert all(p["pads_seen"] == 0 for p in padding)


def texts(count, seed):
    return [{"input_ids": row, "labels": row} for ids, _ in shifted(count, seed) for row in ids]


@pytest.mark.filterwarnings("ignore")  # of transformers and accelerate, about themselves
def test_the_trainer_of_hugging_face_with_the_callback(tmp_path):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    callback = regard.watch.for_trainer(every=5, out=tmp_path / "run.jsonl")
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path), max_steps=12, per_device_train_batch_size=8, logging_steps=6, eval_strategy="steps", eval_steps=6,
        report_to=[], disable_tqdm=True, use_cpu=True, save_strategy="no", seed=0, learning_rate=1e-3,
    )  # fmt: skip
    with torch.random.fork_rng():
        transformers.Trainer(
            tiny_gpt(), arguments, train_dataset=texts(6, 0), eval_dataset=texts(3, 1), callbacks=[callback]
        ).train()
    rows = callback.run.rows
    assert [(r["step"], r["layer"]) for r in rows if "entropy" in r] == [(s, n) for s in (0, 5, 10) for n in (0, 1)]
    assert all(r["grad_query"] > 0 for r in rows if "entropy" in r)
    assert len([r for r in rows if "validation_loss" in r]) == 2
    assert {r["eval_pass"] for r in rows if "eval_pass" in r} == {0, 1, 2}
    assert [r["step"] for r in rows if "loss" in r and "losses" in r][:3] == [0, 5, 10]
    assert callback.run.diagnosis().names() == []


def test_the_lightning_callback_follows_the_protocol_of_its_trainer(monkeypatch):
    """By calling the protocol: Lightning itself is not installed here."""
    lightning, pytorch = types.ModuleType("lightning"), types.ModuleType("lightning.pytorch")
    pytorch.Callback = type("Callback", (), {})
    monkeypatch.setitem(sys.modules, "lightning", lightning)
    monkeypatch.setitem(sys.modules, "lightning.pytorch", pytorch)
    callback = regard.watch.for_lightning(every=2, validation_loss="val/loss")
    model, trainer = (
        built(lambda: Tagger(Attention)),
        types.SimpleNamespace(callback_metrics={"val/loss": torch.tensor(3.5)}),
    )
    callback.on_validation_start(trainer, model)  # the sanity check before training
    callback.on_validation_end(trainer, model)
    callback.on_train_start(trainer, model)
    for at, (ids, wanted) in enumerate(batches(4)):
        loss = loss_of(model, ids, wanted)
        loss.backward()
        callback.on_train_batch_end(trainer, model, {"loss": loss.detach()}, None, at)
    callback.on_validation_start(trainer, model)
    with torch.no_grad():
        model.eval()(ids)
    callback.on_validation_end(trainer, model)
    callback.on_train_end(trainer, model)
    rows = callback.run.rows
    assert [r["step"] for r in rows if "entropy" in r] == [0, 0, 2, 2]
    assert [r["validation_loss"] for r in rows if "validation_loss" in r] == [3.5]
    assert [r["eval_pass"] for r in rows if "eval_pass" in r] == [0, 0]


@pytest.mark.parametrize(
    ("make", "hidden", "words"),
    [("for_trainer", ("transformers",), r"pip install 'regard\[hf\]'"), ("for_lightning", ("lightning", "lightning.pytorch", "pytorch_lightning"), "pip install lightning")],
)  # fmt: skip
def test_a_callback_without_its_package_says_what_to_install(monkeypatch, make, hidden, words):
    for name in hidden:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=words):
        getattr(regard.watch, make)()


class Text(nn.Module):
    """A small text model: 4 causal layers."""

    def __init__(self, width):
        super().__init__()
        self.embed, self.place = nn.Embedding(1000, width), nn.Parameter(torch.zeros(128, width))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 4 * width, 0.1, batch_first=True, norm_first=True) for _ in range(4)
        )
        self.head = nn.Linear(width, 1000)

    def forward(self, ids):
        x = self.embed(ids) + self.place[: ids.shape[1]]
        causal = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        for layer in self.layers:
            x = layer(x, src_mask=causal, is_causal=True)
        return self.head(x)


def seconds_of_steps(model, optimizer, run, ids, steps):
    """CPU seconds of each step."""
    taken = []
    for _ in range(steps):
        begun = time.process_time()
        loss = nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        run.step(loss)
        taken.append(time.process_time() - begun)
    return taken


@pytest.mark.slow
@pytest.mark.parametrize(("width", "length"), [(128, 64), (256, 128)])
def test_at_an_interval_of_50_watching_a_small_text_model_costs_at_most_5_percent(width, length):
    """Recorded and plain steps in turn, so that both meet the same machine; the median of each."""
    model = built(lambda: Text(width))
    ids = torch.randint(0, 1000, (8, length + 1), generator=torch.Generator().manual_seed(0))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    with regard.watch(model, every=3) as run:
        seconds_of_steps(model, optimizer, run, ids, 4)
        taken = seconds_of_steps(model, optimizer, run, ids, 24)
    recorded = [t for at, t in enumerate(taken, 4) if at % 3 == 0]
    plain = [t for at, t in enumerate(taken, 4) if at % 3]
    usual, watched = statistics.median(plain), statistics.median(recorded)
    share = (watched - usual) / (50 * usual)
    print(f"\n4 layers of width {width}, {length} tokens: a step takes {1e3 * usual:.0f} ms of CPU time, a recorded one "
          f"{1e3 * watched:.0f} ms: {100 * share:.1f} % at every=50")  # fmt: skip
    assert share <= COST


@pytest.mark.slow
def test_the_smallest_model_pays_the_most_and_is_told():
    """Width 32: the interpreter is all there is to pay for. No promise is made here; the number is printed."""
    model = built(lambda: Tagger(Fused))
    with regard.watch(model, every=10) as run:
        train(model, batches(101), run)
    assert run.cost is not None
    print(
        f"\nwidth 32, every=10: {100 * run.cost:.1f} % of the wall time; at every=50 about {20 * run.cost / (1 - run.cost):.1f} %"
    )


def test_the_example_finds_nothing_in_the_right_run_and_the_temperature_in_the_wrong_one(tmp_path):
    place = pathlib.Path(__file__).parents[2] / "examples" / "watch_training.py"
    train_example = runpy.run_path(str(place))["train"]
    with torch.random.fork_rng():
        assert train_example(32**0.5, tmp_path / "right.jsonl").diagnosis().names() == []
        wrong = train_example(32.0, tmp_path / "wrong.jsonl").diagnosis()
    assert (wrong.names(), wrong.kinds()) == (["uniform_attention"], ["scale-dk-not-sqrt"])
