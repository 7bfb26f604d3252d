package mount

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/test/netns"
)

// TestTshark records a mount over RoCE between two hosts and has tshark read
// it, which shares no code with the project.
func TestTshark(t *testing.T) {
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		t.Skipf("needs tshark: %v", err)
	}
	for _, mtu := range []int{1500, 4200} {
		t.Run(fmt.Sprintf("mtu %d", mtu), func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "roce.pcap")
			recordMount(t, mtu, file)
			readRecord(t, tshark, file)
		})
	}
}

// recordMount records mounts that take every way of a call.
func recordMount(t *testing.T, mtu int, file string) {
	a, b := netns.Hosts(t, mtu)
	for _, h := range []netns.Host{a, b} {
		if err := h.Cut(); err != nil {
			t.Fatal(err)
		}
	}
	var s *server
	if err := b.Do(func() error {
		s = startServer(t, serverOptions{host: b.IPv4, client: a.IPv4})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	r := netns.Record(t, a, file)
	for _, words := range []string{"", "inline=1024", "noddp"} {
		m := Mount(t, s.source(), Options{Words: s.words("rdma", words), Wrapper: []string{"nsenter", "--net=" + a.Path()}})
		Exercise(t, m.Dir)
		m.Umount(t)
	}
	r.Stop(t)
}

// What tshark is asked of each packet; the names are its own.
var fields = []string{"frame.number", "infiniband.bth.opcode", "infiniband.bth.destqp", "infiniband.invariant.crc",
	"rpcordma.xid", "rpcordma.writes_count", "infiniband.mad.attributeid", "_ws.malformed", "_ws.col.Info"}

// What the opcodes that end a SEND are called in the InfiniBand specification.
var endOfSend = []byte{0x02, 0x03, 0x04, 0x05, 0x16, 0x17}

func readRecord(t *testing.T, tshark, file string) {
	packets := roceFrames(t, file)
	args := []string{"-n", "-r", file, "-Y", "infiniband && !icmp", "-T", "fields", "-E", "separator=/t", "-E", "occurrence=f"}
	for _, f := range fields {
		args = append(args, "-e", f)
	}
	var stderr bytes.Buffer
	cmd := exec.Command(tshark, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("tshark: %v\n%s", err, stderr.Bytes())
	}
	repeated := sentAgain(packets)
	var all, messages, managed int
	for line := range strings.Lines(string(out)) {
		f := strings.SplitN(strings.TrimRight(line, "\n"), "\t", len(fields))
		if len(f) != len(fields) {
			t.Fatalf("tshark says %q", line)
		}
		number, err := strconv.Atoi(f[0])
		ip := packets[number]
		if err != nil || ip == nil {
			t.Fatalf("tshark counts a frame %q, which is no RoCE packet", f[0])
		}
		all++
		packet := ip[28:]
		if op, err := strconv.Atoi(f[1]); err != nil || op != int(packet[0]) {
			t.Errorf("frame %d: opcode %q, is %#x", number, f[1], packet[0])
		}
		sum := icrc(ip)
		if !bytes.Equal(sum, packet[len(packet)-4:]) {
			t.Errorf("frame %d: invariant CRC %x, want %x", number, packet[len(packet)-4:], sum)
		}
		reply := f[5] != "" && f[5] != "0"
		malformed := f[7] != ""
		info := f[8]
		if malformed {
			// It says so of every reply of the kernel's server that it puts
			// together from RDMA Writes, too, and then shows no CRC. What it puts
			// together from RDMA Reads has bytes twice when packets were sent
			// again, as happens on a busy machine.
			if !reply && repeated == 0 {
				t.Errorf("frame %d is malformed: %s", number, info)
			}
		} else if f[3] != fmt.Sprintf("0x%08x", binary.BigEndian.Uint32(sum)) {
			t.Errorf("frame %d: tshark reads a CRC of %s, it is %x", number, f[3], sum)
		}
		switch {
		case packet[0] == 0x64:
			managed++
			if f[6] == "" {
				t.Errorf("frame %d: tshark sees no management datagram", number)
			}
		case slices.Contains(endOfSend, packet[0]):
			messages++
			if f[4] == "" {
				t.Errorf("frame %d: tshark sees no RPC-over-RDMA message: %s", number, info)
			}
		}
	}
	if all != len(packets) || managed < 3*5 || messages < 100 {
		t.Errorf("tshark sees %d packets of %d, %d of connection management, %d messages", all, len(packets), managed, messages)
	}
	t.Logf("%d packets, %d of them READs or their responses once more, %d of connection management, %d RPC-over-RDMA messages",
		all, repeated, managed, messages)
}

// sentAgain counts the READ requests, and the packets that answer them, that were
// recorded before.
func sentAgain(packets map[int][]byte) (n int) {
	type key struct{ addresses, number, kind string }
	seen := make(map[key]bool)
	for _, ip := range packets {
		packet := ip[28:]
		kind := "answer"
		switch op := packet[0]; {
		case op == 0x0c:
			kind = "request"
		case op < 0x0d || op > 0x10:
			continue
		}
		k := key{string(ip[12:20]), string(packet[5:8]) + string(packet[9:12]), kind}
		if seen[k] {
			n++
		}
		seen[k] = true
	}
	return n
}

// roceFrames is the IP packets to port 4791 of a recording, by the numbers that
// tshark gives to frames.
func roceFrames(t *testing.T, file string) map[int][]byte {
	t.Helper()
	d, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[int][]byte)
	d = d[24:]
	for number := 1; len(d) > 0; number++ {
		n := int(binary.NativeEndian.Uint32(d[8:]))
		f := d[16 : 16+n]
		d = d[16+n:]
		if n >= 14+20+8+12+4 && f[12] == 8 && f[13] == 0 && f[14] == 0x45 && f[23] == 17 && binary.BigEndian.Uint16(f[36:]) == 4791 {
			out[number] = f[14 : 14+binary.BigEndian.Uint16(f[16:])]
		}
	}
	return out
}

// icrc is the invariant CRC of an IPv4 packet without options, straight from
// annex A17.3.3: what may change under way counts as ones.
func icrc(ip []byte) []byte {
	b := append(bytes.Repeat([]byte{0xff}, 8), ip[:len(ip)-4]...)
	for _, at := range []int{1, 8, 10, 11, 26, 27, 32} { // TOS, TTL, two checksums, the reserved byte
		b[8+at] = 0xff
	}
	return binary.LittleEndian.AppendUint32(nil, crc32.ChecksumIEEE(b))
}
