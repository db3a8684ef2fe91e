"""Files and functions stay small enough to be read at once; the worst are printed, so that they can be split in time."""

import ast
import pathlib

SOURCE = pathlib.Path(__file__).parents[1] / "src"
FILE_LINES, FUNCTION_LINES = 350, 60


def sizes(folder: pathlib.Path) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """(lines, place) of every file and of every function under a folder, longest first."""
    files, functions = [], []
    for path in sorted(folder.rglob("*.py")):
        text, name = path.read_text(encoding="utf-8"), path.relative_to(folder).as_posix()
        files.append((text.count("\n"), name))
        functions += [
            (node.end_lineno - node.lineno + 1, f"{name}:{node.lineno} {node.name}")
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
    return sorted(files, reverse=True), sorted(functions, reverse=True)


def test_no_file_and_no_function_is_too_long_to_be_read_at_once():
    files, functions = sizes(SOURCE)
    for title, rows, limit in (("files", files, FILE_LINES), ("functions", functions, FUNCTION_LINES)):
        print(f"\nlongest {title} (limit {limit} lines)")
        for lines, place in rows[:10]:
            print(f"{lines:5}  {place}")
    too_long = [row for row in files if row[0] > FILE_LINES] + [row for row in functions if row[0] > FUNCTION_LINES]
    assert not too_long


def test_the_measure_sees_a_long_function_and_a_long_file(tmp_path):
    body = "\n".join("    x = 0" for _ in range(70))
    (tmp_path / "long.py").write_text(f"def f():\n{body}\n" + "y = 0\n" * 300)
    files, functions = sizes(tmp_path)
    assert files == [(371, "long.py")]
    assert functions == [(71, "long.py:1 f")]
