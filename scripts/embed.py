"""Writes text files as C strings: embed.py OUTPUT NAME=FILE..."""

import pathlib
import sys

lines = ["/* Written by scripts/embed.py. */"]
for argument in sys.argv[2:]:
    name, file = argument.split("=", 1)
    lines.append(f"static const char {name}[] =")
    for line in pathlib.Path(file).read_text().splitlines():
        escaped = line.replace("\\", "\\\\").replace('"', '\\"')
        lines.append(f'    "{escaped}\\n"')
    lines[-1] += ";"
pathlib.Path(sys.argv[1]).write_text("\n".join(lines) + "\n")
