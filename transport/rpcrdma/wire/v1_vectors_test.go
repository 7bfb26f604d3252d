package wire

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// runXDR compiles testdata/name.x with rpcgen, and with it the program
// testdata/name.c, and returns what that prints.
func runXDR(t *testing.T, name string) string {
	t.Helper()
	for _, tool := range []string{"rpcgen", "cc"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs %s: %v", tool, err)
		}
	}
	if _, err := os.Stat("/usr/include/tirpc/rpc/rpc.h"); err != nil {
		t.Skipf("needs libtirpc-dev: %v", err)
	}
	dir := t.TempDir()
	for _, f := range []string{name + ".x", name + ".c"} {
		b, err := os.ReadFile(filepath.Join("testdata", f))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, f), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	run := func(tool string, args ...string) string {
		cmd := exec.Command(tool, args...)
		cmd.Dir = dir
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s", tool, err, stderr.Bytes())
		}
		return string(out)
	}
	// The RFC's XDR leaves its names for integers to the compiler.
	ints := []string{"-Duint32=unsigned int", "-Duint64=unsigned hyper"}
	run("rpcgen", append(ints, "-h", "-o", name+".h", name+".x")...)
	run("rpcgen", append(ints, "-c", "-o", "xdr.c", name+".x")...)
	run("cc", "-w", "-I/usr/include/tirpc", "-o", "vectors", name+".c", "xdr.c", "-ltirpc")
	return run("./vectors")
}

// TestRPCGenVectors1 makes sure that the vectors kept are those of the RFC's own
// XDR.
func TestRPCGenVectors1(t *testing.T) {
	want, err := os.ReadFile("testdata/v1_vectors.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got := runXDR(t, "rpcrdma_v1"); got != string(want) {
		t.Errorf("testdata/v1_vectors.txt differs from what rpcgen's code encodes:\n%s", got)
	}
}

// describe says of m what testdata/rpcrdma_v1.c says.
func describe(m Message) string {
	var b strings.Builder
	segment := func(s Segment) { fmt.Fprintf(&b, "%x:%x:%x", s.Handle, s.Length, s.Offset) }
	chunk := func(c Chunk) {
		b.WriteString("{")
		for i, s := range c {
			if i > 0 {
				b.WriteString(",")
			}
			segment(s)
		}
		b.WriteString("}")
	}
	h := m.Fixed()
	fmt.Fprintf(&b, "proc=%d xid=%x credit=%x", h.Proc, h.XID, h.Credits)
	var lists *Lists
	switch m := m.(type) {
	case *Msg:
		lists = &m.Lists
	case *MsgP:
		fmt.Fprintf(&b, " align=%x thresh=%x", m.Align, m.Threshold)
		lists = &m.Lists
	case *Error:
		fmt.Fprintf(&b, " err=%d", m.Code)
		if m.Code == ErrVers {
			fmt.Fprintf(&b, " low=%x high=%x", m.Low, m.High)
		}
		return b.String()
	default:
		return b.String()
	}
	b.WriteString(" reads=")
	for i, s := range lists.Read {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, "%x@", s.Position)
		segment(s.Segment)
	}
	b.WriteString(" writes=")
	for _, c := range lists.Write {
		chunk(c)
	}
	b.WriteString(" reply=")
	if lists.Reply != nil {
		chunk(lists.Reply)
	}
	return b.String()
}

// TestVectors1 decodes every vector to what its line says, and encodes it to the
// same bytes again.
func TestVectors1(t *testing.T) {
	text, err := os.ReadFile("testdata/v1_vectors.txt")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[Proc]int{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		i := strings.LastIndex(line, " ")
		want, digits := line[:i], line[i+1:]
		wire, err := hex.DecodeString(digits)
		if err != nil {
			t.Fatal(err)
		}
		m, n, err := Parse(wire, AllVersions)
		if strings.HasPrefix(want, "proc=1 ") && strings.HasSuffix(want, "reads= writes= reply=") {
			if err == nil { // RFC 8166 section 4.5.2
				t.Errorf("%s: accepted", want)
			}
			continue
		}
		if got := describe(m); err != nil || n != len(wire) || got != want {
			t.Errorf("%x: %d of %d bytes, %v\n%s, want\n%s", wire, n, len(wire), err, got, want)
		}
		if again := encoded(m); !bytes.Equal(again, wire) {
			t.Errorf("%s: encodes to\n%x, want\n%x", want, again, wire)
		}
		seen[m.Fixed().Proc]++
		for k := range wire {
			if _, _, err := Parse(wire[:k:k], AllVersions); err == nil {
				t.Errorf("%s: %d of %d bytes accepted", want, k, len(wire))
			}
		}
	}
	for p := ProcMsg; p <= ProcError; p++ {
		if seen[p] < 4 {
			t.Errorf("%d vectors of procedure %d", seen[p], p)
		}
	}
}
