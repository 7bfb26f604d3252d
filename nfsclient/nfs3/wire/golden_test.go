package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/test/rpccapture"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// The golden messages in testdata come from captures of the Linux client and
// server over siw and rxe. With the captures at hand
//
//	go test ./nfsclient/nfs3/wire -run TestCaptures -captures DIR [-update]
//
// checks every message in them, and -update chooses the golden ones anew.
var (
	captureDir = flag.String("captures", "", "directory of siw-nfsv3.pcap and rxe-nfsv3.pcap")
	update     = flag.Bool("update", false, "rewrite testdata/golden.txt from the captures")
)

const (
	goldenFile = "testdata/golden.txt"
	// Of each kind of message and length one is golden, from each capture, up
	// to a number and a size.
	goldenPerKind = 6
	goldenMax     = 10 << 10
)

// captured is the arguments or results of one RPC.
type captured struct {
	key  messageKey
	body []byte
}

func roundTrip(k messageKey, body []byte) error {
	m, err := decode(k, body)
	if err != nil {
		return err
	}
	var w xdr.Writer
	m.Append(&w)
	if !bytes.Equal(w.Bytes(), body) {
		return fmt.Errorf("encodes to %x instead of %x", w.Bytes(), body)
	}
	return nil
}

func TestCaptures(t *testing.T) {
	if *captureDir == "" {
		t.Skip("no -captures given")
	}
	var out bytes.Buffer
	for _, name := range []string{"siw-nfsv3", "rxe-nfsv3"} {
		rpcs, err := rpccapture.Read(filepath.Join(*captureDir, name+".pcap"))
		if err != nil {
			t.Fatal(err)
		}
		var all []captured
		for _, m := range rpcs {
			if k := (messageKey{m.Prog, m.Vers, m.Proc, m.Reply}); newMessage(k) != nil {
				all = append(all, captured{k, m.Body})
			}
		}
		counts := map[messageKey]int{}
		for _, c := range all {
			counts[c.key]++
			if err := roundTrip(c.key, c.body); err != nil {
				t.Errorf("%s: %v: %v", name, c.key, err)
			}
		}
		t.Logf("%s: %d messages of %d kinds", name, len(all), len(counts))
		fmt.Fprintf(&out, "# from %s\n", name)
		choose(&out, all)
	}
	if *update && !t.Failed() {
		if err := os.WriteFile(goldenFile, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// choose writes one message of each kind and length.
func choose(out *bytes.Buffer, all []captured) {
	type shape struct {
		k messageKey
		n int
	}
	taken, seen := map[messageKey]int{}, map[shape]bool{}
	for _, c := range all {
		if c.key == readReply {
			c.body = shortenRead(c.body)
		}
		s := shape{c.key, len(c.body)}
		if seen[s] || len(c.body) > goldenMax || taken[c.key] >= goldenPerKind {
			continue
		}
		seen[s] = true
		taken[c.key]++
		reply := 0
		if c.key.reply {
			reply = 1
		}
		fmt.Fprintf(out, "%d %d %d %d %x\n", c.key.prog, c.key.vers, c.key.proc, reply, c.body)
	}
}

var readReply = messageKey{NFSProgram, NFSVersion, ProcRead, true}

// shortenRead cuts the data of a READ reply to 61 bytes and sets count and
// length to it: the captures have none but of 1 MiB. What stays are the bytes
// captured, and three of padding.
func shortenRead(body []byte) []byte {
	const head, n = ReadReplyMax, 61 // with attributes the head has its full size
	b := append(bytes.Clone(body[:head+n]), 0, 0, 0)
	binary.BigEndian.PutUint32(b[head-4:], n)
	binary.BigEndian.PutUint32(b[head-12:], n)
	return b
}

// golden reads the golden messages.
func golden(tb testing.TB) []captured {
	tb.Helper()
	f, err := os.Open(goldenFile)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() {
		if err := f.Close(); err != nil {
			tb.Error(err)
		}
	}()
	var all []captured
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 4*goldenMax)
	for sc.Scan() {
		if sc.Bytes()[0] == '#' {
			continue
		}
		var c captured
		var reply int
		var body string
		if _, err := fmt.Sscan(sc.Text()+" ", &c.key.prog, &c.key.vers, &c.key.proc, &reply); err != nil {
			tb.Fatal(err)
		}
		body = sc.Text()[bytes.LastIndexByte(sc.Bytes(), ' ')+1:]
		if c.body, err = hex.DecodeString(body); err != nil {
			tb.Fatal(err)
		}
		c.key.reply = reply == 1
		all = append(all, c)
	}
	if sc.Err() != nil {
		tb.Fatal(sc.Err())
	}
	return all
}

func TestGolden(t *testing.T) {
	kinds := map[messageKey]bool{}
	for _, c := range golden(t) {
		kinds[c.key] = true
		if err := roundTrip(c.key, c.body); err != nil {
			t.Errorf("%v: %v", c.key, err)
		}
	}
	// What the captures are known to hold.
	for proc := range uint32(ProcCommit + 1) {
		switch proc {
		case ProcMknod, ProcReadDir, ProcCommit:
			continue
		}
		for _, reply := range []bool{false, true} {
			if k := (messageKey{NFSProgram, NFSVersion, proc, reply}); !kinds[k] {
				t.Errorf("no golden message for %v", k)
			}
		}
	}
}

// Every part of a message that ends early is refused.
func TestGoldenTruncations(t *testing.T) {
	for _, c := range golden(t) {
		for n := range c.body {
			if _, err := decode(c.key, c.body[:n]); err == nil {
				t.Errorf("%v: first %d of %d bytes accepted", c.key, n, len(c.body))
			}
		}
		if _, err := decode(c.key, append(bytes.Clone(c.body), 0, 0, 0, 0)); err == nil {
			t.Errorf("%v: trailing word accepted", c.key)
		}
	}
}

// Some golden messages must also mean the right thing: what tshark says of
// them is repeated here.
func TestGoldenMeaning(t *testing.T) {
	var lookup, write, sattr, port bool
	for _, c := range golden(t) {
		m, err := decode(c.key, c.body)
		if err != nil {
			t.Fatal(err)
		}
		switch m := m.(type) {
		case *WriteArgs:
			if m.Count == 5001 {
				write = m.Offset == 0 && m.Stable == nfsclient.FileSync && m.Data.Len == 5001
			}
		case *DirOp:
			lookup = lookup || c.key.proc == ProcLookup && m.Name == "longlink"
		case *SetAttrArgs:
			sattr = sattr || m.Attr.Mode.Set && m.Attr.Mode.V&0o777 == 0o640
		case *GetPortRes:
			port = m.Port == 46881
		case *FSInfoRes:
			if m.ReadMax != 1<<20 || m.WriteMax != 1<<20 || m.Properties != PropLink|PropSymlink|PropHomogeneous|PropCanSetTime {
				t.Errorf("FSINFO: %+v", m)
			}
		case *GetAttrRes:
			if m.Status != nfsclient.OK || m.Attr.Nlink == 0 || m.Attr.Mtime.Nsec >= 1e9 {
				t.Errorf("GETATTR: %+v", m)
			}
		case *MntRes:
			if m.Status != MountOK || len(m.Handle) == 0 || len(m.Flavors) != 1 || m.Flavors[0] != AuthSys {
				t.Errorf("MNT: %+v", m)
			}
		case *ReadRes:
			if m.Count != 61 || m.Data.Len != 61 || !m.Attr.Set {
				t.Errorf("READ: count %d, %d bytes", m.Count, m.Data.Len)
			}
		case *ReadDirRes:
			if !m.EOF || len(m.Entries) < 3 {
				t.Errorf("READDIRPLUS: %d entries, EOF %v", len(m.Entries), m.EOF)
			}
			for _, e := range m.Entries {
				if e.Name == "" || e.Name != ".." && (e.FileID != e.Attr.Attr.FileID || e.Handle.Handle == "") {
					t.Errorf("READDIRPLUS: %+v", e)
				}
			}
		}
	}
	if !lookup || !write || !sattr || !port {
		t.Errorf("seen: LOOKUP of longlink %v, WRITE of 5001 bytes %v, SETATTR to 0640 %v, port 46881 %v", lookup, write, sattr, port)
	}
}
