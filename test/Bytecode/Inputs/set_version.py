"""set_version.py IN OUT MAJOR MINOR: sets the tandem dialect's version in
bytecode of version 1.0. Each number is below 64, so one byte."""

import sys

source, target, major, minor = sys.argv[1:]
# Section 7 (dialect versions), its length 2, the numbers 1 and 0; a number n
# below 64 is the byte 2n + 1.
version = b"\x07\x05\x03\x01"
with open(source, "rb") as file:
    data = file.read()
if data.count(version) != 1:
    sys.exit(f"{source}: the version is not where it was")
changed = bytes([0x07, 0x05, 2 * int(major) + 1, 2 * int(minor) + 1])
with open(target, "wb") as file:
    file.write(data.replace(version, changed))
