#!/usr/bin/env python3
"""Takes the RPC-over-RDMA headers out of packet captures of NFS/RDMA.

usage: extract.py CAPTURE.pcap... > headers.txt

Reads classic pcap files of Ethernet frames with IPv4, finds the iWARP Sends on
TCP port 20049 and the RoCEv2 Sends on UDP port 4791, and prints one line for
each, "capture direction body-length header first-words-of-body": direction is
c for what the client sent and s for what the server sent; header and the first
two words of the body are in hex. Headers that differ in values only are
printed at most twelve times for each capture.
"""
import os
import struct
import sys


def frames(path):
    with open(path, "rb") as f:
        data = f.read()
    end = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    off = 24
    while off + 16 <= len(data):
        n = struct.unpack_from(end + "I", data, off + 8)[0]
        yield data[off + 16 : off + 16 + n]
        off += 16 + n


def packets(path):
    """Yields (protocol, source port, destination port, flow, transport header and data)."""
    for f in frames(path):
        if f[12:14] != b"\x08\x00":
            continue
        ip = f[14:]
        ihl, total = (ip[0] & 15) * 4, struct.unpack_from(">H", ip, 2)[0]
        seg = ip[ihl:total]
        sport, dport = struct.unpack_from(">HH", seg)
        yield ip[9], sport, dport, ip[12:20], seg


def iwarp_sends(path):
    """Yields (direction, message), in the order in which they were completed."""
    streams = {}
    for proto, sport, dport, flow, seg in packets(path):
        if proto != 6 or 20049 not in (sport, dport):
            continue
        key = (flow, sport, dport)
        seq, flags, body = struct.unpack_from(">I", seg, 4)[0], seg[13], seg[(seg[12] >> 4) * 4 :]
        s = streams.setdefault(key, {"next": None, "held": {}, "buf": b"", "mpa": False, "msg": b""})
        if flags & 2:
            s["next"] = seq + 1 & 0xFFFFFFFF
            continue
        if body:
            s["held"][seq] = body
        while s["next"] in s["held"]:
            b = s["held"].pop(s["next"])
            s["buf"] += b
            s["next"] = s["next"] + len(b) & 0xFFFFFFFF
        if not s["mpa"] and len(s["buf"]) >= 20:
            n = 20 + struct.unpack_from(">H", s["buf"], 18)[0]
            if len(s["buf"]) >= n:
                s["buf"], s["mpa"] = s["buf"][n:], True
        while s["mpa"] and len(s["buf"]) >= 2:
            n = struct.unpack_from(">H", s["buf"])[0]
            whole = 2 + n + (-(2 + n) & 3) + 4
            if len(s["buf"]) < whole:
                break
            pdu, s["buf"] = s["buf"][: 2 + n], s["buf"][whole:]
            if pdu[3] & 15 in (3, 4, 5, 6):
                s["msg"] += pdu[20:]
                if pdu[2] & 0x40:
                    yield "c" if dport == 20049 else "s", s["msg"]
                    s["msg"] = b""


def roce_sends(path):
    sizes = {0: 12, 1: 12, 2: 12, 3: 16, 4: 12, 5: 16, 0x16: 16, 0x17: 16}
    client, parts, last = None, {}, {}
    for proto, _, dport, flow, seg in packets(path):
        if proto != 17 or dport != 4791:
            continue
        bth = seg[8:-4]
        op, qpn = bth[0], struct.unpack_from(">I", bth, 4)[0] & 0xFFFFFF
        if qpn == 1 and client is None:
            client = flow[:4]
        if op not in sizes or qpn == 1:
            continue
        psn = struct.unpack_from(">I", bth, 8)[0] & 0xFFFFFF
        key = (flow, qpn)
        if last.get(key) == psn:
            continue
        last[key] = psn
        body = bth[sizes[op] : len(bth) - (bth[1] >> 4 & 3)]
        msg = parts.pop(key, b"") + body
        if op in (0, 1):
            parts[key] = msg
            continue
        yield "c" if flow[:4] == client else "s", msg


def header(m):
    """Returns (length, shape) of the header at the start of m."""
    words = struct.unpack(">%dI" % (len(m) // 4), m[: len(m) // 4 * 4])
    i, shape = 4, [words[1], words[2], words[3]]
    if words[3] > 2:
        return len(m), shape
    while words[i]:
        shape.append(("r", words[i + 1] == 0))
        i += 6
    i += 1

    def chunk(i):
        n = words[i]
        lens = words[i + 2 : i + 1 + 4 * n : 4]
        shape.append((n, [x == 0 for x in lens], bool(lens) and lens[-1] & 3))
        return i + 1 + 4 * n

    while words[i]:
        shape.append("w")
        i = chunk(i + 1)
    i += 1
    if words[i]:
        shape.append("p")
        i = chunk(i + 1)
    else:
        i += 1
    return 4 * i, shape


def main():
    for path in sys.argv[1:]:
        name, seen = os.path.basename(path).removesuffix(".pcap"), {}
        for direction, m in (roce_sends if "rxe" in name else iwarp_sends)(path):
            n, shape = header(m)
            key = (direction, repr(shape))
            seen[key] = seen.get(key, 0) + 1
            if seen[key] <= 12:
                print(name, direction, len(m) - n, m[:n].hex(), m[n : n + 8].hex() or "-")
        print(name, seen and sum(seen.values()), "Sends", file=sys.stderr)


main()
