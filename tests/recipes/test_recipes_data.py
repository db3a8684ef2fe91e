"""The user's own files in the usual layouts, and every way in which they can be wrong, word by word."""

import csv
import gzip
import io
import json
import sys
import tarfile
import types
import zipfile

import numpy as np
import pytest

from regard.core.errors import DataError, MissingExtraError
from regard.recipes.data import archive, hub, labelled, parallel_text, pictures, plain_text, questions, table, tagged
from regard.recipes.data.archive import each
from regard.recipes.data.decoding import decode
from regard.recipes.data.splits import divide, split_of


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def tar_of(path, files, mode="w:gz"):
    with tarfile.open(path, mode) as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def zip_of(path, files):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def deb_of(path, files):
    data = tar_of(path.with_suffix(".tar"), files, "w:xz").read_bytes()
    content = b"!<arch>\n"
    for name, part in (("debian-binary", b"2.0\n"), ("control.tar.xz", b"odd"), ("data.tar.xz", data)):
        content += f"{name:<16}{0:<12}{0:<6}{0:<6}{0:<8}{len(part):<10}`\n".encode() + part + b"\n" * (len(part) % 2)
    path.write_bytes(content)
    return path


FILES = {"a/one.txt": b"1", "b/two.txt": b"2"}


@pytest.mark.parametrize("kind", ["folder", "zip", "whl", "tar", "tar.gz", "tgz", "tar.xz", "tar.bz2", "deb"])
def test_folders_and_archives_give_the_same_files(tmp_path, kind):
    path = tmp_path / f"x.{kind}"
    if kind == "folder":
        for name, content in FILES.items():
            write(path / name, content)
    elif kind in ("zip", "whl"):
        zip_of(path, FILES)
    elif kind == "deb":
        deb_of(path, FILES)
    else:
        tar_of(path, FILES, {"tar": "w", "tgz": "w:gz"}.get(kind, f"w:{kind[4:]}"))
    assert dict(each(path)) == FILES
    assert dict(each(path, lambda name: name.startswith("b"))) == {"b/two.txt": b"2"}


@pytest.mark.parametrize("name", ["../evil.txt", "/etc/evil.txt", "a/../../evil.txt", "C:\\evil.txt"])
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_a_name_that_leads_out_of_the_archive_is_refused(tmp_path, name, kind):
    path = tmp_path / f"x.{kind}"
    _ = zip_of(path, {name: b"x"}) if kind == "zip" else tar_of(path, {name: b"x"}, "w")
    with pytest.raises(DataError, match="which leads out of the archive; it is not read"):
        list(each(path))


def test_links_in_an_archive_are_passed_over(tmp_path):
    with tarfile.open(tmp_path / "x.tar", "w") as tar:
        info = tarfile.TarInfo("link")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(info)
    assert list(each(tmp_path / "x.tar")) == []


def test_a_member_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MAX_MEMBER", 10)
    with pytest.raises(DataError, match="big would unpack to 11 bytes; the limit for one file is 10"):
        list(each(zip_of(tmp_path / "x.zip", {"big": b"x" * 11})))
    with pytest.raises(DataError, match=r"would unpack to 11 bytes"):
        list(each(write(tmp_path / "big.gz", gzip.compress(b"x" * 50))))


def test_a_damaged_archive_and_a_missing_one_say_so(tmp_path):
    with pytest.raises(DataError, match=r"x.zip is damaged or not what its name says \(BadZipFile"):
        list(each(write(tmp_path / "x.zip", b"no zip")))
    with pytest.raises(DataError, match="there is no file or folder nowhere"):
        list(each("nowhere"))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "gb18030", "utf-16"])
def test_the_encoding_is_found(encoding):
    text = "这是一个句子，用来测试编码。\r\n第二行 second line\n"
    assert decode(text.encode(encoding), "x") == text.replace("\r\n", "\n")


def test_a_file_in_two_encodings_is_refused_with_both_lines():
    mixed = "第一行是这样写的\n".encode() + "第二行是那样写的\n".encode("gb18030")
    with pytest.raises(DataError, match=r"x.txt mixes encodings: line 1 is UTF-8 and line 2 is not \(GB18030\?\)"):
        decode(mixed, "x.txt")


def test_an_empty_file_and_an_unknown_encoding_are_refused():
    with pytest.raises(DataError, match=r"x.txt is empty \(2 bytes\)"):
        decode(b" \n", "x.txt")
    with pytest.raises(DataError, match=r"x.txt, line 2, is neither UTF-8 nor GB18030; save the file as UTF-8"):
        decode(b"plain\n\xff\xff caf\xe9\n", "x.txt")


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("aclImdb/train/pos/0_9.txt", "train"),
        ("qamr.dev.json", "val"),
        ("multi30k.test_2016_flickr.en", "test"),
        ("x.csv", None),
    ],
)
def test_the_split_stands_in_the_name(name, split):
    assert split_of(name) == split


def test_what_no_name_divides_is_divided_by_content_so_that_copies_stay_together():
    rows = [f"text {i % 200}" for i in range(400)]
    splits = divide({None: rows}, str, "x")
    assert sum(map(len, splits)) == 400
    assert not set(splits.train) & set(splits.test)
    assert not set(splits.train) & set(splits.val)
    assert divide({None: rows}, str, "x") == splits


def reviews(count=60):
    return [
        {"text": f"film number {i} was {'good' if i % 2 else 'bad'}", "label": "pos" if i % 2 else "neg"}
        for i in range(count)
    ]


@pytest.mark.parametrize("layout", ["folders", "csv", "tsv", "jsonl", "named files"])
def test_labelled_texts_in_each_layout(tmp_path, layout):
    rows = reviews()
    if layout == "folders":
        for i, row in enumerate(rows):
            write(tmp_path / "d" / ("train" if i < 40 else "test") / row["label"] / f"{i}.txt", row["text"])
        write(tmp_path / "d/train/urls_pos.txt", "a list")
        write(tmp_path / "d/train/unsup/0.txt", "no label")
    elif layout == "jsonl":
        write(tmp_path / "d.jsonl", "\n".join(map(json.dumps, rows)))
    else:
        made = io.StringIO()
        writer = csv.DictWriter(made, ["text", "label"], delimiter="\t" if layout == "tsv" else ",")
        writer.writeheader()
        writer.writerows(rows)
        if layout == "named files":
            write(tmp_path / "d/train.csv", made.getvalue())
            write(tmp_path / "d/test.csv", made.getvalue())
        else:
            write(tmp_path / f"d.{layout}", made.getvalue())
    splits = labelled.read_labelled(next(tmp_path.glob("d*")))
    assert {row.label for row in splits.train} == {"pos", "neg"}
    assert all(row.text.endswith("good") == (row.label == "pos") for part in splits for row in part)


def test_a_text_that_carries_two_labels_is_left_out(tmp_path):
    rows = [*reviews(), {"text": "both", "label": "pos"}, {"text": "both", "label": "neg"}]
    splits = labelled.read_labelled(write(tmp_path / "d.jsonl", "\n".join(map(json.dumps, rows))))
    assert "both" not in {row.text for part in splits for row in part}


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("d.csv", "title,stars\nx,1\n", r"d.csv has the columns title, stars; expected one of text, .* and one of label, .*such as\n    text,label"),
        ("d.csv", "text,label\nx,\n", r"d.csv, row 1, has no label; fill it in or take the row out"),
        ("d.csv", "text,label\n ,a\n", r"d.csv, row 1, has an empty text"),
        ("d.csv", "text,label\na, b,c\n", r"d.csv, line 2, has more cells than the header; put texts that hold a comma into double quotes"),
        ("d.csv", "text,label\n", r"d.csv has a header and no rows"),
        ("d.jsonl", '{"text": "a", "label": "b"}\nx\n', r"d.jsonl, line 2, is not JSON"),
        ("d.jsonl", "[1]\n", r"d.jsonl, line 1, is not an object such as"),
        ("d.csv", "", r"d.csv is empty"),
    ],
)  # fmt: skip
def test_wrong_tables_of_texts_say_what_is_wrong(tmp_path, name, content, said):
    with pytest.raises(DataError, match=said):
        labelled.read_labelled(write(tmp_path / name, content))


def test_another_layout_says_what_was_found_and_what_is_expected(tmp_path):
    write(tmp_path / "d/notes.md", "x")
    with pytest.raises(
        DataError, match=r"holds notes.md; expected folders train/LABEL/\*.txt .*such as\n    text,label\n    \"A film"
    ):
        labelled.read_labelled(tmp_path / "d")


def test_a_label_that_only_the_test_part_has_is_named(tmp_path):
    write(tmp_path / "d/train.jsonl", "\n".join(map(json.dumps, reviews())))
    write(tmp_path / "d/test.jsonl", json.dumps({"text": "x", "label": "neutral"}))
    with pytest.raises(DataError, match=r"has the label 'neutral' outside its training part, which knows 'neg', 'pos'"):
        labelled.read_labelled(tmp_path / "d")


def squad(answer="1094 km", start=12, **more):
    qa = {"id": "q1", "question": "How long?", "answers": [{"text": answer, "answer_start": start}]} | more
    return {"data": [{"title": "Rivers", "paragraphs": [{"context": "The Elbe is 1094 km long.", "qas": [qa]}]}]}


def test_questions_keep_their_spans_and_unanswerable_ones_have_none():
    one = questions.parse(json.dumps(squad()), "x")[0]
    assert one.context[one.starts[0] : one.starts[0] + 7] == one.answers[0] == "1094 km"
    assert questions.parse(json.dumps(squad(is_impossible=True)), "x")[0].answers == ()


def test_an_answer_that_is_not_at_its_place_is_refused_with_the_right_place_or_repaired():
    with pytest.raises(
        DataError,
        match=r"question q1: the answer '1094 km' is not at character 11 of its context, where ' 1094 k' is; it stands at 12",
    ):
        questions.parse(json.dumps(squad(start=11)), "x")
    with pytest.raises(DataError, match=r"it does not occur in the context. --set repair=true takes the nearest place"):
        questions.parse(json.dumps(squad(answer="1095 km")), "x")
    assert questions.parse(json.dumps(squad(start=11)), "x", repair=True)[0].starts == (12,)
    with pytest.raises(DataError, match="x has no question"):
        questions.parse(json.dumps(squad(answer="1095 km")), "x", repair=True)


def test_an_empty_question_is_refused_or_left_out():
    with pytest.raises(DataError, match="x, question q1, is empty; --set repair=true leaves it out"):
        questions.parse(json.dumps(squad(question=" ")), "x")
    with pytest.raises(DataError, match="x has no question"):
        questions.parse(json.dumps(squad(question=" ")), "x", repair=True)


@pytest.mark.parametrize("text", ["[1]", '{"version": 1}', "{"])
def test_json_that_is_not_squad_is_refused_with_an_example(text):
    with pytest.raises(DataError, match=r'is not laid out as SQuAD.s JSON.*expected such as\n    \{"data": '):
        questions.parse(text, "x.json")


@pytest.mark.parametrize(
    ("tags", "bio"),
    [("S-LOC O B-PER E-PER", "B-LOC O B-PER I-PER"), ("B-A M-A E-A S-B", "B-A I-A I-A B-B"), ("B-A I-A O B-B", "B-A I-A O B-B"),
     ("nn vb nn jj", "nn vb nn jj")],
)  # fmt: skip
def test_the_schemes_of_tags_become_bio(tags, bio):
    text = "".join(f"w{i} {tag}\n" for i, tag in enumerate(tags.split()))
    assert tagged.parse(text, "x")[0].tags == tuple(bio.split())


@pytest.mark.parametrize("bio", ["B-A I-A O B-A B-A I-A I-B O", "I-A B-B O I-B", "nn B vb-I"])
def test_tags_with_ends_come_back_as_they_were(bio):
    tags = bio.split()
    assert tagged.to_bio([tuple(tagged.with_ends(tags))], "x")[0] == tuple(tags)


def test_characters_with_their_place_in_a_word_lose_it():
    assert tagged.parse("科0\tO\n技1\tB-X\n\n312\tO\n", "x")[0].tokens == ("科", "技")


def test_wrong_columns_and_unknown_tags_are_refused():
    with pytest.raises(
        DataError, match=r"x, line 2, has one column, 'lonely'; expected one token and its tag .*:\n    Berlin B-LOC"
    ):
        tagged.parse("a O\nlonely\n", "x")
    with pytest.raises(
        DataError, match=r"x has the unknown tag 'LOC' among entity tags; expected O, or a letter of B I M E S L U"
    ):
        tagged.parse("a B-LOC\nb LOC\n", "x")


def test_a_token_that_is_longer_than_the_limit_is_refused_with_its_line():
    with pytest.raises(
        DataError,
        match=r"x, line 2, has a token of 201 characters, 'aaa.*; the limit is 200. Is the file really in columns",
    ):
        tagged.parse("b O\n" + "a" * 201 + " O\n", "x")


GOOD = "date,load,oil\n2016-07-01 00:00,1,2\n2016-07-01 01:00,3,4\n2016-07-01 03:00,5,6\n"


def test_a_series_keeps_its_hours_also_where_they_are_irregular():
    found = table.parse(GOOD, "x")
    assert found.hours.tolist() == [0, 1, 3]
    assert found.values.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert found.channels == ["load", "oil"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            ("1,2", "1,"),
            r"x has 1 values that are missing or not finite, the first on line 2; columns: oil. Fill them in, or .* --set fill=true",
        ),
        (("1,2", "NaN,inf"), r"x has 2 values that are missing or not finite"),
        (("1,2", "1,warm"), r"x, line 2, column oil: 'warm' is no number"),
        (("1,2", "1,2,3"), r"x, line 2, has 4 cells and the header 3"),
        (("03:00", "00:30"), r"x, line 4: 2016-07-01 00:30 does not come after 2016-07-01 01:00; sort the rows"),
        (("2016-07-01 00:00", "yesterday"), r"expected dates such as 2016-07-01 00:00:00"),
        (("date,", "when,"), r"x has the columns when, load, oil .*such as\n    date,load,temperature"),
    ],
)
def test_wrong_series_say_what_is_wrong(change, said):
    with pytest.raises(DataError, match=said):
        table.parse(GOOD.replace(*change), "x")


def test_missing_values_are_filled_where_that_is_asked_and_possible():
    assert table.parse(GOOD.replace("3,4", ",4"), "x", fill=True).values[1].tolist() == [1, 4]
    with pytest.raises(DataError, match="x begins with missing values"):
        table.parse(GOOD.replace("1,2", ",2"), "x", fill=True)


def test_parallel_files_become_pairs_also_compressed(tmp_path):
    lines = [f"line {i}" for i in range(40)]
    for split in ("train", "val", "test"):
        write(tmp_path / f"{split}.en.gz", gzip.compress("\n".join(lines).encode()))
        write(tmp_path / f"{split}.de", "\n".join(f"Zeile {i}" for i in range(40)) + "\n")
    splits = parallel_text.read_pairs(tmp_path, "en", "de")
    assert [len(part) for part in splits] == [40, 40, 40]
    assert splits.val[7] == ("line 7", "Zeile 7")


def test_parallel_files_that_do_not_match_are_refused(tmp_path):
    write(tmp_path / "train.en", "a\nb\n")
    with pytest.raises(DataError, match=r"has train in en only; expected files train.SOURCE and train.TARGET"):
        parallel_text.read_pairs(tmp_path, "en", "de")
    write(tmp_path / "train.de", "a\n")
    with pytest.raises(
        DataError, match=r"train.en has 2 lines and train.de has 1; line i of one must translate line i"
    ):
        parallel_text.read_pairs(tmp_path, "en", "de")


def image(size, colour):
    from PIL import Image

    made = io.BytesIO()
    Image.new("RGB", size, colour).save(made, "PNG")
    return made.getvalue()


def image_folder(split_sizes):
    files = {}
    for split, count in split_sizes.items():
        for i in range(count):
            files[f"d/{split}/{'red' if i % 2 else 'blue'}/{i}.png"] = image(
                (6, 4), (250, 0, 0) if i % 2 else (0, 0, 250)
            )
    return files


def test_an_image_folder_is_read_in_rows_and_columns(tmp_path):
    found = pictures.read_pictures(zip_of(tmp_path / "d.zip", image_folder({"train": 60, "test": 8})))
    assert found.classes == ["blue", "red"]
    assert found.test.images.shape == (8, 3, 4, 6)
    assert all(i[0, 0, 0] == (250 if label else 0) for i, label in zip(found.test.images, found.test.labels))


def test_images_of_two_sizes_are_refused_or_scaled(tmp_path):
    path = zip_of(tmp_path / "d.zip", image_folder({"train": 60, "test": 8}) | {"d/train/red/x.png": image((3, 3), 0)})
    with pytest.raises(
        DataError, match=r"x.png is 3 x 3 pixels and .* is 6 x 4; scale them to one size with --set side=32"
    ):
        pictures.read_pictures(path)
    assert pictures.read_pictures(path, side=5).train.images.shape[1:] == (3, 5, 5)


def test_files_that_are_no_images_and_no_folders_of_images_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"x.png is no image that can be read"):
        pictures.read_pictures(zip_of(tmp_path / "d.zip", {"train/red/x.png": b"text"}))
    with pytest.raises(DataError, match=r"holds a.txt; expected images in folders train/CLASS"):
        pictures.read_pictures(zip_of(tmp_path / "e.zip", {"a.txt": b"text"}))


def test_idx_files_are_read_and_checked():
    array = np.arange(12, dtype=np.uint8).reshape(3, 2, 2)
    content = b"\x00\x00\x08\x03" + b"".join(n.to_bytes(4, "big") for n in array.shape) + array.tobytes()
    assert np.array_equal(pictures.read_idx(gzip.compress(content), "x.gz"), array)
    with pytest.raises(DataError, match="x is no IDX file of bytes: it begins with 89504e47"):
        pictures.read_idx(b"\x89PNG....", "x")
    with pytest.raises(DataError, match="x has 27 bytes, and its head promises 3 x 2 x 2"):
        pictures.read_idx(content[:-1], "x")


def test_running_text_is_one_file_or_a_folder_of_them(tmp_path):
    write(tmp_path / "d/a.txt", "one\n")
    write(tmp_path / "d/b.txt", "two\n")
    write(tmp_path / "d/c.md", "no\n")
    assert plain_text.read_text(tmp_path / "d") == "one\n\ntwo\n"
    assert plain_text.read_text(tmp_path / "d/c.md") == "no\n"


class Feature:
    def int2str(self, i):
        return ("bad", "good")[i]


class Part(list):
    features = {"text": object(), "label": Feature()}  # noqa: RUF012


def test_a_data_set_of_the_hub_gives_rows_with_the_names_of_its_classes(monkeypatch):
    fake = types.ModuleType("datasets")
    fake.load_dataset = lambda name, configuration: {"train": Part([{"text": name, "label": 1}]), "validation": Part()}
    monkeypatch.setitem(sys.modules, "datasets", fake)
    assert hub.rows_of("hub:imdb") == {"train": [{"text": "imdb", "label": "good"}], "val": []}


def test_a_hub_that_cannot_be_reached_and_a_package_that_is_missing_say_what_to_do(monkeypatch):
    fake = types.ModuleType("datasets")
    fake.load_dataset = lambda name, configuration: [][0]
    monkeypatch.setitem(sys.modules, "datasets", fake)
    with pytest.raises(DataError, match=r"hub:imdb could not be loaded \(IndexError: .*\); off line, give --data PATH"):
        hub.rows_of("hub:imdb")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtraError, match="hub:imdb needs the package datasets: pip install datasets"):
        hub.rows_of("hub:imdb")
