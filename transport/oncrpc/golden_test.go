package oncrpc

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// golden is a message captured from Linux, with what another decoder made of
// it.
type golden struct {
	name, kind string
	field      map[string]string
	msg        []byte
}

func (g *golden) num(t testing.TB, name string) uint32 {
	t.Helper()
	v, err := strconv.ParseUint(g.field[name], 0, 32)
	if err != nil {
		t.Fatalf("%s: field %s: %v", g.name, name, err)
	}
	return uint32(v)
}

func goldens(t testing.TB, kind string) []golden {
	t.Helper()
	f, err := os.Open("testdata/messages.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []golden
	s := bufio.NewScanner(f)
	for s.Scan() {
		w := strings.Fields(s.Text())
		if w[0] == "#" || w[1] != kind {
			continue
		}
		g := golden{name: w[0], kind: w[1], field: map[string]string{}}
		for _, kv := range w[2 : len(w)-1] {
			k, v, _ := strings.Cut(kv, "=")
			g.field[k] = v
		}
		if g.msg, err = hex.DecodeString(w[len(w)-1]); err != nil {
			t.Fatal(err)
		}
		all = append(all, g)
	}
	if s.Err() != nil || len(all) < 30 {
		t.Fatalf("%d messages read, %v", len(all), s.Err())
	}
	return all
}

// TestCallsOfLinux decodes every captured call, compares it with what the other
// decoder read, and encodes it again to the same bytes.
func TestCallsOfLinux(t *testing.T) {
	for _, g := range goldens(t, "call") {
		var r xdr.Reader
		r.Reset(g.msg, nil)
		h, err := ParseCall(&r)
		if err != nil {
			t.Errorf("%s: %v", g.name, err)
			continue
		}
		if h.XID != g.num(t, "xid") || h.Prog != g.num(t, "prog") || h.Vers != g.num(t, "vers") || h.Proc != g.num(t, "proc") || h.Flavor != g.num(t, "flavor") {
			t.Errorf("%s: read %+v, want %v", g.name, h, g.field)
		}
		var cred transport.Cred
		if h.Flavor == transport.FlavorSys {
			sys := h.Sys
			sys.Machine = g.field["machine"]
			cred = &sys
			gids := []string{fmt.Sprint(h.Sys.GID)}
			for _, v := range h.Sys.GIDs {
				gids = append(gids, fmt.Sprint(v))
			}
			if h.Sys.UID != g.num(t, "uid") || !strings.HasSuffix(strings.Join(gids, ","), g.field["gid"]) {
				t.Errorf("%s: credentials %+v, want %v", g.name, h.Sys, g.field)
			}
		}
		call := &transport.Call{Prog: h.Prog, Vers: h.Vers, Proc: h.Proc, Cred: cred}
		args := g.msg[r.Offset():]
		call.Args = func(w *xdr.Writer) {
			for i := 0; i+4 <= len(args); i += 4 {
				w.Fixed(args[i : i+4])
			}
		}
		var w xdr.Writer
		AppendCall(&w, h.XID, call)
		if h.Flavor == transport.FlavorSys {
			// The kernel's stamp is 0, as ours; umount.nfs uses the time.
			copy(w.Bytes()[stampAt:stampAt+4], g.msg[stampAt:])
		}
		if !bytes.Equal(w.Bytes(), g.msg[:len(g.msg)&^3]) {
			t.Errorf("%s: encoded as\n%x\nwant\n%x", g.name, w.Bytes(), g.msg)
		}
		if n := headerLen(call); n != r.Offset() {
			t.Errorf("%s: header of %d bytes encoded, %d there", g.name, n, r.Offset())
		}
		if xid, reply, ok := PeekXID(g.msg); xid != h.XID || reply || !ok {
			t.Errorf("%s: PeekXID: %#x %v %v", g.name, xid, reply, ok)
		}
		for n := range r.Offset() {
			r.Reset(g.msg[:n], nil)
			if _, err := ParseCall(&r); !errors.Is(err, transport.ErrProtocol) {
				t.Errorf("%s cut to %d bytes: %v", g.name, n, err)
			}
		}
	}
}

// stampAt is where the stamp of AUTH_SYS credentials stands in a call.
const stampAt = 32

// TestRepliesOfLinux decodes every captured reply; all of them are accepted
// and successful, and cut short anywhere they are malformed.
func TestRepliesOfLinux(t *testing.T) {
	for _, g := range goldens(t, "reply") {
		xid, reply, ok := PeekXID(g.msg)
		if !ok || !reply {
			t.Errorf("%s: PeekXID: %v %v", g.name, reply, ok)
		}
		if want := g.num(t, "xid"); xid != want {
			t.Errorf("%s: XID %#x, want %#x", g.name, xid, want)
		}
		var at, runs int
		c := &transport.Call{Result: func(r *xdr.Reader) error {
			at, runs = r.Offset(), runs+1
			r.Fixed(r.Remaining() &^ 3)
			return nil
		}}
		var r xdr.Reader
		r.Reset(g.msg, nil)
		if err := DecodeReply(&r, xid, c); err != nil || at != ReplyHeader || runs != 1 {
			t.Errorf("%s: %v; results at %d, decoded %d times", g.name, err, at, runs)
		}
		for n := range ReplyHeader {
			r.Reset(g.msg[:n], nil)
			checkProtocol(t, DecodeReply(&r, xid, c), "%s cut to %d bytes", g.name, n)
		}
		r.Reset(g.msg, nil)
		checkProtocol(t, DecodeReply(&r, xid+1, c), "%s under another XID", g.name)
		if runs != 1 {
			t.Errorf("%s: results of malformed replies decoded", g.name)
		}
	}
}

func checkProtocol(t *testing.T, err error, format string, args ...any) {
	t.Helper()
	var e *transport.Error
	if !errors.As(err, &e) || e.Fate != transport.Answered || !errors.Is(err, transport.ErrProtocol) {
		t.Errorf(format+": %v", append(args, err)...)
	}
}

// headerLen is what is encoded of a call before its arguments.
func headerLen(c *transport.Call) int {
	void := *c
	void.Args = nil
	var w xdr.Writer
	AppendCall(&w, 0, &void)
	return w.Len()
}
