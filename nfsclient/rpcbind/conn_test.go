package rpcbind

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/test/rpcbindtest"
	"github.com/rdmafs/rdmafs/transport"
)

func TestRegistrations(t *testing.T) {
	b := rpcbindtest.Start(t, "127.0.0.1:0")
	e := wire.Rpcb{Program: 100024, Version: 1, NetID: "udp", Addr: "0.0.0.0.3.9", Owner: "superuser"}
	err := Do(t.Context(), b.Addr, func(c *Conn) error {
		first, err := c.Set(e)
		second, again := c.Set(e)
		if !first || second {
			t.Errorf("Set: %v, then %v", first, second)
		}
		list, failed := c.List()
		if len(list) != 1 || list[0] != e {
			t.Errorf("List: %+v", list)
		}
		gone, last := c.Unset(e)
		if !gone {
			t.Error("Unset: not done")
		}
		return errors.Join(err, again, failed, last)
	})
	if err != nil {
		t.Error(err)
	}
	if err := Do(t.Context(), "/nonexistent/rpcbind.sock", nil); err == nil {
		t.Error("no socket, and no error")
	}
}

func fragment(last bool, b string) []byte {
	n := uint32(len(b))
	if last {
		n |= lastFragment
	}
	return append(binary.BigEndian.AppendUint32(nil, n), b...)
}

func TestRecords(t *testing.T) {
	whole := append(fragment(false, "abc"), fragment(true, "de")...)
	if got, err := readRecord(bytes.NewReader(whole)); string(got) != "abcde" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	for n := range whole {
		if _, err := readRecord(bytes.NewReader(whole[:n])); !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("the first %d bytes: %v", n, err)
		}
	}
	for name, b := range map[string][]byte{
		"4 GiB":                {0xff, 0xff, 0xff, 0xff},
		"an empty fragment":    fragment(false, ""),
		"more than it may be":  append(fragment(false, string(make([]byte, maxReply))), fragment(true, "x")...),
		"more than it may, in": {0x80, 0x10, 0, 1},
	} {
		if _, err := readRecord(bytes.NewReader(b)); !errors.Is(err, transport.ErrProtocol) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzRecord(f *testing.F) {
	f.Add(fragment(true, "abcd"))
	f.Add(append(fragment(false, "abc"), fragment(true, "de")...))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := readRecord(bytes.NewReader(b))
		if err == nil && len(got) > len(b)-4 {
			t.Errorf("%d bytes of %d", len(got), len(b))
		}
	})
}
