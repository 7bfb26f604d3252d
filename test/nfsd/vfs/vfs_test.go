package vfs

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSipHash checks against the vectors of the algorithm's authors: key and
// messages are 00 01 02 …, and the results are as published for lengths 0, 8
// and 15.
func TestSipHash(t *testing.T) {
	var key [16]byte
	msg := make([]byte, 15)
	for i := range key {
		key[i] = byte(i)
	}
	for i := range msg {
		msg[i] = byte(i)
	}
	k := newMacKey(key)
	for n, want := range map[int]uint64{0: 0x726fdb47dd0e0e31, 8: 0x93f5f5799a932462, 15: 0xa129ca6149be45e5} {
		if got := k.sum(msg[:n]); got != want {
			t.Errorf("length %d: %#x, want %#x", n, got, want)
		}
	}
}

// TestPending compares the extents with a plain array, over many random writes.
func TestPending(t *testing.T) {
	const room = 400
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		disk := make([]byte, 100)
		for i := range disk {
			disk[i] = 'd'
		}
		model := bytes.Clone(disk)
		var p pending
		for range 40 {
			off, n := rnd.IntN(room-60), 1+rnd.IntN(60)
			data := bytes.Repeat([]byte{byte('A' + rnd.IntN(26))}, n)
			p.insert(extent{uint64(off), data})
			if len(model) < off+n {
				model = append(model, make([]byte, off+n-len(model))...)
			}
			copy(model[off:], data)

			var bytesHeld int64
			for i, e := range p.ext {
				bytesHeld += int64(len(e.data))
				if len(e.data) == 0 || i > 0 && p.ext[i-1].end() > e.off {
					t.Fatalf("seed %d: extents %v", seed, p.ext)
				}
			}
			if bytesHeld != p.bytes {
				t.Fatalf("seed %d: %d bytes held, %d counted", seed, bytesHeld, p.bytes)
			}
			st := Stat{Statx_t: unix.Statx_t{Size: uint64(len(disk))}}
			p.amend(&st)
			if st.Size != uint64(len(model)) {
				t.Fatalf("seed %d: size %d, want %d", seed, st.Size, len(model))
			}
			at, want := rnd.IntN(room), rnd.IntN(room)
			b := bytes.Repeat([]byte{'?'}, want)
			got := 0
			if at < len(disk) {
				got = copy(b, disk[at:])
			}
			got = p.overlay(b, uint64(at), got, st.Size)
			if expect := model[min(at, len(model)):min(at+want, len(model))]; !bytes.Equal(b[:got], expect) {
				t.Fatalf("seed %d: read %d at %d: %q, want %q", seed, want, at, b[:got], expect)
			}
		}
	}
}

func newTree(t testing.TB, cfg Config) *Tree {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	tr, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	})
	return tr
}

func TestLossyIsBounded(t *testing.T) {
	tr := newTree(t, Config{Lossy: true, LossyMax: 10000})
	var st Stat
	var ch Change
	n, err := tr.Create(&Cred{}, tr.Root(), "f", Guarded, &SetAttr{}, [8]byte{}, &st, &ch)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Put(n)
	for i, want := range []Stable{Unstable, Unstable, DataSync, Unstable} {
		if _, how, err := tr.Write(&Cred{}, n, uint64(i)*5000, make([]byte, 5000), Unstable, &ch); err != nil || how != want {
			t.Errorf("write %d: %v, how %d, want %d", i, err, how, want)
		}
		if tr.pending.Load() > 10000 {
			t.Errorf("%d bytes held", tr.pending.Load())
		}
	}
	tr.Forget()
	if tr.pending.Load() != 0 {
		t.Errorf("%d bytes held after Forget", tr.pending.Load())
	}
	if err := tr.Stat(n, &st); err != nil || st.Size != 15000 {
		t.Errorf("%d bytes on disk, %v", st.Size, err)
	}
}

// TestSweep: idle descriptors for I/O are closed, so that a file just written
// can be executed.
func TestSweep(t *testing.T) {
	tr := newTree(t, Config{})
	var st Stat
	var ch Change
	n, err := tr.Create(&Cred{}, tr.Root(), "f", Guarded, &SetAttr{}, [8]byte{}, &st, &ch)
	if err != nil {
		t.Fatal(err)
	}
	now := tr.nodes.epoch.Load() + idle + 2
	tr.sweep(now)
	if n.wrFD.Load() < 0 {
		t.Error("a file in use was closed")
	}
	tr.Put(n)
	tr.sweep(now)
	if n.wrFD.Load() >= 0 {
		t.Error("an idle file is open")
	}
	n, err = tr.Get(n.Handle())
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Put(n)
	if _, _, err := tr.Write(&Cred{}, n, 0, []byte("x"), Unstable, &ch); err != nil {
		t.Errorf("write after a sweep: %v", err)
	}
}

// TestRemovedIsLetGo: nothing keeps the storage of a file removed.
func TestRemovedIsLetGo(t *testing.T) {
	for _, inode := range []bool{false, true} {
		tr := newTree(t, Config{InodeHandles: inode})
		var st Stat
		var ch Change
		n, err := tr.Create(&Cred{}, tr.Root(), "f", Guarded, &SetAttr{}, [8]byte{}, &st, &ch)
		if err != nil {
			t.Fatal(err)
		}
		tr.Put(n)
		if err := tr.Remove(&Cred{}, tr.Root(), "f", &ch); err != nil {
			t.Fatal(err)
		}
		if n.fd >= 0 || n.wrFD.Load() >= 0 {
			t.Error("a removed file is open")
		}
		if _, err := tr.Get(n.Handle()); err != unix.ESTALE {
			t.Errorf("handle of a removed file: %v", err)
		}
	}
}

// TestWalkFinds: without an index an inode is found by walking, and what is in
// vain is not tried again at once.
func TestWalkFinds(t *testing.T) {
	dir := t.TempDir()
	for i := range 10 {
		sub := filepath.Join(dir, "d"+strconv.Itoa(i), "e")
		if err := os.MkdirAll(sub, 0o777); err != nil {
			t.Fatal(err)
		}
		for j := range 20 {
			if err := os.WriteFile(filepath.Join(sub, "f"+strconv.Itoa(j)), nil, 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	tr := newTree(t, Config{Dir: dir, InodeHandles: true})
	path := filepath.Join(dir, "d9/e/f19")
	var st Stat
	if err := statAt(unix.AT_FDCWD, path, &st); err != nil {
		t.Fatal(err)
	}
	k := tr.inodeOf(&st)
	fd, err := tr.find(k)
	if err != nil {
		t.Fatal(err)
	}
	closeFD(fd)
	if got, ok := tr.index.path(tr.rootID.no(), k.no()); !ok || got != "d9/e/f19" {
		t.Errorf("noted as %q", got)
	}
	// Its second name is found when the first is gone.
	if err := os.Link(path, filepath.Join(dir, "d0/other")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if fd, err = tr.find(k); err != nil {
		t.Fatal(err)
	}
	closeFD(fd)
	wrong := k
	wrong.gen++
	for range 2 {
		if _, err := tr.find(wrong); err != unix.ESTALE {
			t.Errorf("another generation: %v", err)
		}
	}
	if len(tr.missed) != 1 {
		t.Errorf("%d misses remembered", len(tr.missed))
	}
}

func FuzzHandle(f *testing.F) {
	tr := newTree(f, Config{Dir: f.TempDir(), InodeHandles: true})
	f.Add([]byte(tr.Root().Handle()))
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0xff}, 64))
	f.Fuzz(func(t *testing.T, b []byte) {
		h := string(b)
		if len(b) >= handleHead+handleMac {
			// With a good checksum the rest is reached.
			b = bytes.Clone(b)
			b[0] = handleMagic
			binary.BigEndian.PutUint32(b[2:], 0)
			h = tr.seal(b[:len(b)-handleMac])
		}
		n, err := tr.Get(h)
		if err == nil {
			if n != tr.root {
				t.Errorf("handle %x names something", h)
			}
			tr.Put(n)
		}
	})
}

// TestReadAtAGrowingEnd: where a file ended when it was read, the end is found, though it
// has become longer before the size is looked at.
func TestReadAtAGrowingEnd(t *testing.T) {
	tr := newTree(t, Config{})
	var st Stat
	var ch Change
	n, err := tr.Create(&Cred{}, tr.Root(), "f", Guarded, &SetAttr{}, [8]byte{}, &st, &ch)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Put(n)
	written := make(chan error, 1)
	go func() {
		var ch Change
		for off := range uint64(5000) {
			if _, _, err := tr.Write(&Cred{}, n, off, []byte{1}, Unstable, &ch); err != nil {
				written <- err
				return
			}
		}
		written <- nil
	}()
	b := make([]byte, 1)
	for off := uint64(0); off < 5000; {
		got, end, err := tr.Read(&Cred{}, n, off, b, &st)
		if err != nil || got == 0 && !end {
			t.Errorf("at %d: %d bytes, at the end: %v, %v", off, got, end, err)
			break
		}
		off += uint64(got)
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
}
