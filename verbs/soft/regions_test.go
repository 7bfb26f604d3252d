package soft

import (
	"testing"

	"github.com/rdmafs/rdmafs/verbs/mem"
)

func arena(t *testing.T, n int) *mem.Arena {
	t.Helper()
	a, err := mem.NewArena(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

func TestRegions(t *testing.T) {
	var s Regions
	a, b := arena(t, 8192), arena(t, 4096)
	if _, ok := s.Address(a.Seg(0, 1)); ok {
		t.Error("a segment of no region has an address")
	}
	ra, err := s.Add(a)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Add(a); err == nil {
		t.Error("an arena was registered twice")
	}
	rb, err := s.Add(b)
	if err != nil || s.Len() != 2 {
		t.Fatalf("%d regions, %v", s.Len(), err)
	}
	first, ok := s.Address(a.Seg(0, 8192))
	if !ok || first&0xfff != 0 {
		t.Errorf("first byte at %#x, %v", first, ok)
	}
	if at, ok := s.Address(a.Seg(5000, 3192)); !ok || at != first+5000 {
		t.Errorf("byte 5000 at %#x, %v; the first at %#x", at, ok, first)
	}
	for _, bad := range []mem.Seg{
		{Arena: a, Off: 8191, Len: 2}, {Arena: a, Off: -1, Len: 1}, {Arena: a, Off: 0, Len: -1},
		{Arena: a, Off: 8193, Len: 1}, {Arena: a, Off: 1, Len: int(^uint(0) >> 1)}, {Off: 0, Len: 1},
	} {
		if _, ok := s.Address(bad); ok {
			t.Errorf("%+v has an address", bad)
		}
	}
	if at, ok := s.Address(mem.Seg{}); !ok || at != 0 {
		t.Errorf("the empty segment is at %#x, %v", at, ok)
	}
	if err := ra.Close(); err != nil {
		t.Error(err)
	}
	if err := ra.Close(); err == nil {
		t.Error("a region was closed twice")
	}
	if _, ok := s.Address(a.Seg(0, 1)); ok {
		t.Error("a segment has an address after its region's end")
	}
	if err := rb.Close(); err != nil || s.Len() != 0 {
		t.Errorf("%d regions, %v", s.Len(), err)
	}
}
