package wire

import (
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// statMask is the attributes that stat needs, but for the names of owners in writeMask.
var (
	writeMask = BitmapOf(AttrChange, AttrSize, AttrSpaceUsed, AttrTimeMetadata, AttrTimeModify)
	statMask  = writeMask.Or(BitmapOf(AttrType, AttrFSID, AttrFileID, AttrMode, AttrNumLinks, AttrOwner, AttrOwnerGroup, AttrRawDev, AttrTimeAccess, AttrMountedOnFileID))
)

// statAttrs is allAttrs with a mask.
func statAttrs(mask Bitmap) Attrs {
	a := allAttrs
	a.Mask = mask
	return a
}

// workload is a compound that is used again and again, as a client does.
type workload struct {
	name string
	Compound
	send, recv []mem.Vec
}

func workloads() []workload {
	fh := nfsclient.Handle("a handle of thirty-six bytes, or so..")
	sequence := &Sequence{Session: sampleSession, ResSession: sampleSession}
	data := mem.Vec{}
	return []workload{
		{"READ", Compound{Minor: 2, Ops: []Operation{sequence, &PutFH{Handle: fh}, &Read{Stateid: sampleStateid, Count: 1 << 20, Data: Marked(0)}}, Done: 3}, nil, []mem.Vec{data}},
		{"WRITE", Compound{Minor: 2, Ops: []Operation{sequence, &PutFH{Handle: fh}, &Write{Stateid: sampleStateid, Data: Marked(0)},
			&GetAttr{Want: writeMask, Attrs: statAttrs(writeMask)}}, Done: 4}, []mem.Vec{data}, nil},
		{"GETATTR", Compound{Minor: 2, Ops: []Operation{sequence, &PutFH{Handle: fh}, &GetAttr{Want: statMask, Attrs: statAttrs(statMask)}}, Done: 3}, nil, nil},
	}
}

// exercise encodes the call and decodes the reply, as a client does, n times.
func (l *workload) exercise(tb testing.TB, n int) {
	var w xdr.Writer
	w.Reset(nil, l.recv) // a server sends what the client receives
	l.AppendRes(&w)
	reply := append([]byte(nil), w.Bytes()...)
	buf := make([]byte, 0, 4096)
	var r xdr.Reader
	for range n {
		w.Reset(buf, l.send)
		l.AppendArgs(&w)
		r.Reset(reply, l.recv)
		l.ParseRes(&r)
		if err := r.End(); err != nil {
			tb.Fatal(err)
		}
	}
}

func BenchmarkCompound(b *testing.B) {
	for _, l := range workloads() {
		b.Run(l.name, func(b *testing.B) {
			b.ReportAllocs()
			l.exercise(b, b.N)
		})
	}
}

// A compound that is used again allocates nothing.
func TestAllocations(t *testing.T) {
	const n = 1000
	for _, l := range workloads() {
		once := testing.AllocsPerRun(10, func() { l.exercise(t, 1) })
		if many := testing.AllocsPerRun(10, func() { l.exercise(t, 1+n) }); many > once {
			t.Errorf("%s: %.3f allocations for each compound", l.name, (many-once)/n)
		}
	}
}
