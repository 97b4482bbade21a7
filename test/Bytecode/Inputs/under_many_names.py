"""under_many_names.py FILE FOLDER COMMAND...: runs COMMAND on 32 copies of FILE whose
names have other lengths; {} stands for the copy. All must succeed."""

import pathlib
import shutil
import subprocess
import sys

source, folder = map(pathlib.Path, sys.argv[1:3])
shutil.rmtree(folder, ignore_errors=True)
folder.mkdir()
for length in range(1, 33):
    copy = folder / ("n" * length + ".mlirbc")
    shutil.copyfile(source, copy)
    command = [word.replace("{}", str(copy)) for word in sys.argv[3:]]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"{copy.name}: {result.stderr}")
