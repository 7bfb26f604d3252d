package provider

import (
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
	"github.com/rdmafs/rdmafs/verbs/mem/memtest"
)

func TestSoft(t *testing.T) {
	s := Soft{Provider: "test"}
	a, b := memtest.Arena(t, 8192), memtest.Arena(t, 4096)
	if _, ok := s.Address(a.Seg(0, 1)); ok {
		t.Error("a segment of no region has an address")
	}
	ra, err := s.Register(a)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Register(a); err == nil {
		t.Error("an arena was registered twice")
	}
	rb, err := s.Register(b)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err == nil || !strings.HasSuffix(err.Error(), "0 connections or listeners and 2 regions left") {
		t.Fatalf("Close with 2 regions: %v", err)
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
	if err := rb.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Hold(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err == nil {
		t.Error("closed with a connection left")
	}
	s.Release()
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := s.Hold(); err != verbs.ErrClosed {
		t.Errorf("Hold after Close: %v", err)
	}
	if _, err := s.Register(a); err != verbs.ErrClosed {
		t.Errorf("Register after Close: %v", err)
	}
}
