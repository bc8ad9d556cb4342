#!/usr/bin/env python3
"""Write the table of TEST()s found in the given files: unit_list.py OUT.c FILE.c..."""
import pathlib
import re
import sys

out, *files = sys.argv[1:]
names = []
for file in files:
    names += re.findall(r"^TEST\((\w+)\)", pathlib.Path(file).read_text(), re.M)
if not names or len(set(names)) != len(names):
    sys.exit(f"unit_list: no tests, or two of one name, in {' '.join(files)}")
lines = ['#include "unit/test.h"', ""]
lines += [f"void test_{n}(void);" for n in names]
lines += ["", "const struct test_entry test_entries[] = {"]
lines += [f'    {{"{n}", test_{n}}},' for n in names]
lines += ["    {0},", "};", ""]
pathlib.Path(out).write_text("\n".join(lines))
