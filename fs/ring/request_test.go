package ring

import (
	"bytes"
	"encoding/binary"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
)

var quiet = slog.New(slog.DiscardHandler)

// told is a file system that notes what it is asked for.
type told struct {
	fuse.RawFileSystem
	what string
	data []byte // of READ
	lent bool   // READ's data is lent, and Done was not called
}

func newTold() *told { return &told{RawFileSystem: fuse.NewDefaultRawFileSystem()} }

func (f *told) Lookup(_ <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	f.what = "lookup " + name
	out.NodeId = h.NodeId + 1
	return fuse.OK
}

func (f *told) Rename(_ <-chan struct{}, in *fuse.RenameIn, from, to string) fuse.Status {
	f.what = "rename " + from + " " + to
	if in.Newdir != 7 {
		return fuse.EINVAL
	}
	return fuse.Status(in.Flags)
}

func (f *told) Symlink(_ <-chan struct{}, _ *fuse.InHeader, target, name string, out *fuse.EntryOut) fuse.Status {
	f.what = "symlink " + name + " to " + target
	return fuse.OK
}

func (f *told) Write(_ <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	f.what = "write " + string(data)
	return uint32(len(data)), fuse.OK
}

type lentData struct{ f *told }

func (l lentData) Size() int                          { return len(l.f.data) }
func (l lentData) Bytes([]byte) ([]byte, fuse.Status) { panic("has slices") }
func (l lentData) Slices() ([][]byte, fuse.Status) {
	half := len(l.f.data) / 2
	return [][]byte{l.f.data[:half], l.f.data[half:]}, fuse.OK
}
func (l lentData) Done() { l.f.lent = false }

func (f *told) Read(_ <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	if f.lent {
		return lentData{f}, fuse.OK
	}
	if in.Offset == 1 {
		return fuse.ReadResultData(f.data), fuse.OK // elsewhere
	}
	return fuse.ReadResultData(buf[:copy(buf, f.data)]), fuse.OK
}

func (f *told) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	for out.AddDirEntry(fuse.DirEntry{Name: "entry", Ino: 5}) {
	}
	return fuse.OK
}

func (f *told) Unlink(<-chan struct{}, *fuse.InHeader, string) fuse.Status { panic("broken") }

// message is a request as the kernel lays it out: header, structure, data.
func message(opcode uint32, structure, data []byte) (h *header, payload []byte) {
	h = new(header)
	in := fuse.InHeader{Length: uint32(inHeaderLen + len(structure) + len(data)), Opcode: opcode, Unique: 42, NodeId: 9}
	copy(h.inOut[:], structBytes(&in))
	copy(h.op[:], structure)
	h.ent.payloadSize = uint32(len(data))
	payload = make([]byte, 1<<16)
	copy(payload, data)
	return h, payload
}

// tail is a structure without its header.
func tail[T any](v T) []byte { return structBytes(&v)[inHeaderLen:] }

// TestRequests: what the file system is asked, and what the answer has.
func TestRequests(t *testing.T) {
	entry := func(node uint64) []byte { return structBytes(&fuse.EntryOut{NodeId: node}) }
	tests := map[string]struct {
		opcode          uint32
		structure, data []byte
		what            string
		answer          []byte
		status          fuse.Status
	}{
		"LOOKUP":             {1, nil, []byte("name\x00"), "lookup name", entry(10), 0},
		"SYMLINK":            {6, nil, []byte("name\x00target\x00"), "symlink name to target", entry(0), 0},
		"SYMLINK, one name":  {6, nil, []byte("name\x00"), "", nil, fuse.EIO},
		"RENAME":             {12, binary.NativeEndian.AppendUint64(nil, 7), []byte("a\x00b\x00"), "rename a b", nil, 0},
		"RENAME2":            {45, tail(fuse.RenameIn{Newdir: 7, Flags: uint32(syscall.EEXIST)}), []byte("a\x00b\x00"), "rename a b", nil, fuse.Status(syscall.EEXIST)},
		"WRITE":              {16, tail(fuse.WriteIn{Size: 4}), []byte("data"), "write data", structBytes(&fuse.WriteOut{Size: 4}), 0},
		"WRITE, wrong size":  {16, tail(fuse.WriteIn{Size: 5}), []byte("data"), "", nil, fuse.EIO},
		"READ":               {15, tail(fuse.ReadIn{Size: 100}), nil, "", []byte("some data"), 0},
		"READ, less":         {15, tail(fuse.ReadIn{Size: 4}), nil, "", []byte("some"), 0},
		"READ, elsewhere":    {15, tail(fuse.ReadIn{Size: 100, Offset: 1}), nil, "", []byte("some data"), 0},
		"READ, too much":     {15, tail(fuse.ReadIn{Size: 1 << 20}), nil, "", nil, fuse.EINVAL},
		"READDIR, too much":  {28, tail(fuse.ReadIn{Size: 1<<16 + 1}), nil, "", nil, fuse.EINVAL},
		"a panic":            {10, nil, []byte("name\x00"), "", nil, fuse.EIO},
		"GETATTR, default":   {3, tail(fuse.GetAttrIn{}), nil, "", nil, fuse.ENOSYS},
		"GETXATTR, not had":  {22, tail(fuse.GetXAttrIn{}), []byte("name\x00"), "", nil, fuse.ENOSYS},
		"opcode, far beyond": {1 << 31, nil, nil, "", nil, fuse.ENOSYS},
	}
	for name, x := range tests {
		f := newTold()
		f.data = []byte("some data")
		h, payload := message(x.opcode, x.structure, x.data)
		for k := range payload[len(x.data):] {
			payload[len(x.data)+k] = 0xee // of an earlier request
		}
		for _, way := range []string{"ring", "device"} {
			r := newRequest(f, quiet, bytes.Clone(payload))
			err := r.load(h, h.ent.payloadSize)
			if way == "device" {
				msg := append(append(h.inOut[:inHeaderLen:inHeaderLen], x.structure...), x.data...)
				err = r.loadMessage(msg)
			}
			if err != nil {
				t.Errorf("%s, %s: %v", name, way, err)
				continue
			}
			n, st := r.serve()
			if f.what != x.what || st != x.status || !bytes.Equal(r.payload[:n], x.answer) {
				t.Errorf("%s, %s: asked %q, answered %v %q", name, way, f.what, st, r.payload[:n])
			}
		}
	}
}

// TestLentRead: data that was lent is copied, and given back.
func TestLentRead(t *testing.T) {
	f := newTold()
	f.data, f.lent = []byte("some data"), true
	h, payload := message(15, tail(fuse.ReadIn{Size: 100}), nil)
	r := newRequest(f, quiet, payload)
	if err := r.load(h, 0); err != nil {
		t.Fatal(err)
	}
	if n, st := r.serve(); !st.Ok() || string(payload[:n]) != "some data" || f.lent {
		t.Errorf("%q, %v, lent: %t", payload[:n], st, f.lent)
	}
}

// TestListing: a directory fills the size that was asked for, and not more.
func TestListing(t *testing.T) {
	h, payload := message(28, tail(fuse.ReadIn{Size: 1000}), nil)
	r := newRequest(newTold(), quiet, payload)
	if err := r.load(h, 0); err != nil {
		t.Fatal(err)
	}
	n, st := r.serve()
	all, err := fuse.ParseDirEntries(payload[:n])
	if !st.Ok() || err != nil || len(all) != 1000/32 {
		t.Errorf("%v, %v, %d entries", st, err, len(all))
	}
}

// TestSizes: sizes that contradict each other are refused.
func TestSizes(t *testing.T) {
	tests := map[string]func(h *header){
		"more payload than there is":     func(h *header) { h.ent.payloadSize = 1<<16 + 1 },
		"more payload than the request":  func(h *header) { h.ent.payloadSize = 1000 },
		"less payload than the request":  func(h *header) { binary.NativeEndian.PutUint32(h.inOut[:], 1000) },
		"a length that wraps around":     func(h *header) { binary.NativeEndian.PutUint32(h.inOut[:], 1<<32-1) },
		"no length":                      func(h *header) { binary.NativeEndian.PutUint32(h.inOut[:], 0) },
		"a structure that is not whole":  func(h *header) { h.ent.payloadSize = 4; binary.NativeEndian.PutUint32(h.inOut[:], 40+39+4) },
		"no structure, but all in names": func(h *header) { binary.NativeEndian.PutUint32(h.inOut[:], 40+4) },
	}
	for name, spoil := range tests {
		h, payload := message(16, tail(fuse.WriteIn{Size: 4}), []byte("data"))
		r := newRequest(newTold(), quiet, payload)
		if err := r.load(h, h.ent.payloadSize); err != nil {
			t.Fatal(err)
		}
		spoil(h)
		if err := r.load(h, h.ent.payloadSize); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	r := newRequest(newTold(), quiet, nil)
	for n := range inHeaderLen {
		if r.loadMessage(make([]byte, n)) == nil {
			t.Errorf("a message of %d bytes was taken", n)
		}
	}
}

// TestNoAllocation: a request whose file system allocates nothing allocates
// nothing.
func TestNoAllocation(t *testing.T) {
	f := newTold()
	h, payload := message(3, tail(fuse.GetAttrIn{}), nil)
	s := &Server{fs: f}
	r := newRequest(f, quiet, payload)
	if n := testing.AllocsPerRun(100, func() {
		if err := r.load(h, 0); err != nil {
			t.Fatal(err)
		}
		s.answer(r)
	}); n != 0 {
		t.Errorf("%v allocations a request", n)
	}
}

// TestInterruptFirst: an interrupt that is read before the request's entry has
// looked at it is not lost, and none is felt by another request.
func TestInterruptFirst(t *testing.T) {
	s := &Server{}
	r := newRequest(nil, quiet, nil)
	s.add(r)
	r.header().Unique = 8
	s.interrupt(8) // not begun
	r.begin()
	if !s.early.take(8) || s.early.take(8) || s.early.count.Load() != 0 {
		t.Error("the interrupt of a request to come was lost, or not forgotten")
	}
	s.interrupt(8)
	s.interrupt(8)
	select {
	case <-r.cancel:
	default:
		t.Error("not interrupted")
	}
	r.end()
	r.header().Unique = 10
	r.begin()
	select {
	case <-r.cancel:
		t.Error("the next request is interrupted too")
	default:
	}
	for u := range uint64(2 * maxEarly) {
		s.interrupt(1000 + u)
	}
	if n := len(s.early.all); n != maxEarly {
		t.Errorf("%d notes are kept, want %d", n, maxEarly)
	}
	s.interruptAll()
	if _, open := <-r.cancel; open {
		t.Error("the end did not interrupt")
	}
}

func TestCountCPUs(t *testing.T) {
	for list, want := range map[string]int{"0": 1, "0-3": 4, "0-3,8-11": 8, "0,2,4-5": 4} {
		if n, err := countCPUs(list); n != want || err != nil {
			t.Errorf("%q: %d, %v", list, n, err)
		}
	}
	for _, list := range []string{"", "x", "3-1", "0-", "-1", "0-99999", "0,,1", strings.Repeat("0-65535,", 3) + "0"} {
		if n, err := countCPUs(list); err == nil {
			t.Errorf("%q: %d", list, n)
		}
	}
}

// FuzzRequest: whatever the kernel's memory has, a request is answered or
// refused, and the answer fits.
func FuzzRequest(f *testing.F) {
	for opcode := range uint32(54) {
		h, payload := message(opcode, make([]byte, 88), []byte("name\x00other\x00"))
		f.Add(structBytes(h), payload[:11])
		h.ent.payloadSize = 0
		f.Add(structBytes(h), payload[:0])
	}
	f.Fuzz(func(t *testing.T, head, data []byte) {
		h := new(header)
		copy(structBytes(h), head)
		payload := make([]byte, minPayload)
		copy(payload, data)
		file := newTold()
		r := newRequest(file, quiet, payload)
		s := &Server{fs: file}
		if r.load(h, h.ent.payloadSize) == nil {
			if n, st := s.answer(r); n < 0 || n > len(payload) || !st.Ok() && n > 0 {
				t.Errorf("answered %v with %d bytes", st, n)
			}
		}
		if r.loadMessage(append(bytes.Clone(h.inOut[:min(len(head), inHeaderLen)]), data...)) == nil {
			s.answer(r)
		}
	})
}

// TestHeadersInPlace: what serve reads by go-fuse's structures is where they
// have it.
func TestHeadersInPlace(t *testing.T) {
	if unsafe.Sizeof(fuse.InHeader{}) != inHeaderLen || unsafe.Sizeof(fuse.OutHeader{}) != outHeaderLen {
		t.Error("the headers have other sizes")
	}
}

// TestObstacles: what keeps io_uring from being set up is named, and what helps.
func TestObstacles(t *testing.T) {
	for errno, want := range map[syscall.Errno]string{
		syscall.EPERM: "seccomp", syscall.ENOSYS: "without io_uring", syscall.EINVAL: "6.14", syscall.EMFILE: "ulimit -n", syscall.ENOMEM: "cannot allocate",
	} {
		if b, err := os.ReadFile(disabledPath); errno == syscall.EPERM && err == nil && strings.TrimSpace(string(b)) != "0" {
			want = "io_uring_disabled is"
		}
		if got := explainSetup(errno).Error(); !strings.Contains(got, want) || !strings.Contains(got, errno.Error()) {
			t.Errorf("%v: %s", errno, got)
		}
	}
}
