package wire

import (
	"bytes"
	"testing"

	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// Data that is marked is not in the stream that is sent, and what comes in the stream goes
// to where it is to stand. Two READs in a compound have a payload each.
func TestPayloads(t *testing.T) {
	arena, err := mem.NewArena(3 * 4096)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := arena.Close(); err != nil {
			t.Error(err)
		}
	}()
	part := func(i, n int) mem.Vec { return mem.Vec{arena.Seg(4096*i, n)} }
	text := []byte("some text of thirty-four bytes ...")

	send := part(0, len(text))
	send.CopyIn(0, text)
	call := Compound{Minor: 2, Ops: []Operation{&PutFH{Handle: "abcd"}, &Write{Data: Marked(0)}, &GetAttr{Want: writeMask}}}
	var w xdr.Writer
	w.Reset(nil, []mem.Vec{send})
	call.AppendArgs(&w)
	inline := Compound{Minor: 2, Ops: []Operation{&PutFH{Handle: "abcd"}, &Write{Data: Inline(text)}, &GetAttr{Want: writeMask}}}
	whole := encode(&inline).call
	marks := w.Marks()
	if len(marks) != 1 || marks[0].Len != len(text) || w.Len() != len(whole) {
		t.Fatalf("marks %+v, %d bytes of %d", marks, w.Len(), len(whole))
	}
	if got := append(append(bytes.Clone(w.Bytes()[:marks[0].Off]), append(text, 0, 0)...), w.Bytes()[marks[0].Off:]...); !bytes.Equal(got, whole) {
		t.Errorf("with its payload the call is\n%x instead of\n%x", got, whole)
	}

	res := Compound{Minor: 2, Ops: []Operation{&Read{Data: Inline(text)}, &Read{EOF: true, Data: Inline(text[:5])}}, Done: 2}
	recv := []mem.Vec{part(1, 64), part(2, 64)}
	reads := []*Read{{Count: 64, Data: Marked(0)}, {Count: 64, Data: Marked(1)}}
	asked := Compound{Minor: 2, Ops: []Operation{reads[0], reads[1]}}
	var r xdr.Reader
	r.Reset(encode(&res).reply, recv)
	asked.ParseRes(&r)
	if err := r.End(); err != nil {
		t.Fatal(err)
	}
	for i, n := range []int{len(text), 5} {
		got := make([]byte, n)
		recv[i].CopyOut(0, got)
		if reads[i].Data.Len != n || !bytes.Equal(got, text[:n]) {
			t.Errorf("READ %d brought %d bytes, %q", i, reads[i].Data.Len, got)
		}
	}
	reads[0].Count = 8
	r.Reset(encode(&res).reply, recv)
	if asked.ParseRes(&r); r.End() == nil {
		t.Error("more data than asked for is accepted though there is room for it")
	}
}
