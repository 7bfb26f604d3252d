#!/usr/bin/env python3
"""Takes whole calls, and the header of the reply to each, out of packet captures.

usage: messages.py CAPTURE.pcap... > messages.txt

Prints "capture call-header call-body reply-header", in hex: for each shape of
header and each RPC procedure the first call only. extract.py does the reading.
"""
import importlib.util
import io
import os
import struct
import sys
from contextlib import redirect_stdout

here = os.path.dirname(os.path.abspath(__file__))
spec = importlib.util.spec_from_file_location("extract", os.path.join(here, "..", "wire", "testdata", "extract.py"))
extract = importlib.util.module_from_spec(spec)
argv, sys.argv = sys.argv, sys.argv[:1]
with redirect_stdout(io.StringIO()):
    spec.loader.exec_module(extract)
sys.argv = argv

for path in sys.argv[1:]:
    name, seen, calls = os.path.basename(path).removesuffix(".pcap"), set(), {}
    for direction, m in (extract.roce_sends if "rxe" in name else extract.iwarp_sends)(path):
        n, shape = extract.header(m)
        body, xid = m[n:], m[:4]
        if direction == "c":
            # program, version and procedure; a long call has none in sight
            key = repr(shape) + body[12:24].hex()
            if body[4:8] in (b"\0\0\0\0", b"") and key not in seen:
                seen.add(key)
                calls[xid] = (m[:n], body)
        elif xid in calls:
            head, body = calls.pop(xid)
            print(name, head.hex(), body.hex() or "-", m[:n].hex())
