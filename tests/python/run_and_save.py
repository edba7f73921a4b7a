"""run_and_save.py SCRIPT OUT: runs a program that uses rubato and saves the model it ends with."""

import runpy
import sys

script, out = sys.argv[1:]
sys.argv = [script]
runpy.run_path(script, run_name="__main__")

import rubato  # noqa: E402

assert rubato.finished()
rubato.save(out)
