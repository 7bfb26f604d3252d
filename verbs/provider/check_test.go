package provider

import (
	"testing"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

func TestCheckSend(t *testing.T) {
	one, two := make(mem.Vec, 1), make(mem.Vec, 2)
	both := verbs.RemoteRead | verbs.RemoteWrite
	for _, c := range []struct {
		wr           verbs.SendWR
		total, reads int
		why          string
	}{
		{verbs.SendWR{Op: verbs.OpSend}, 0, 0, ""},
		{verbs.SendWR{Op: verbs.OpSendInvalidate, Local: two}, 9, 0, ""},
		{verbs.SendWR{Op: verbs.OpLocalInvalidate}, 0, 0, ""},
		{verbs.SendWR{Op: verbs.OpWrite, Local: two, Addr: ^uint64(0) - 9}, 9, 0, ""},
		{verbs.SendWR{Op: verbs.OpWrite, Local: two, Addr: ^uint64(0) - 8}, 9, 0, "remote address wraps"},
		{verbs.SendWR{Op: verbs.OpRead, Local: one}, 9, 1, ""},
		{verbs.SendWR{Op: verbs.OpRead, Local: one, Addr: ^uint64(0) - 8}, 9, 1, "remote address wraps"},
		{verbs.SendWR{Op: verbs.OpRead}, 0, 1, "a Read has one segment"},
		{verbs.SendWR{Op: verbs.OpRead, Local: two}, 9, 1, "a Read has one segment"},
		{verbs.SendWR{Op: verbs.OpRead, Local: one}, 9, 0, "the peer takes no Reads"},
		{verbs.SendWR{Op: verbs.OpBind, Local: one, Access: both}, 9, 0, ""},
		{verbs.SendWR{Op: verbs.OpBind, Local: one, Access: both}, 0, 0, "a window is bound to one segment"},
		{verbs.SendWR{Op: verbs.OpBind, Local: two, Access: both}, 9, 0, "a window is bound to one segment"},
		{verbs.SendWR{Op: verbs.OpBind, Local: one}, 9, 0, "no such access"},
		{verbs.SendWR{Op: verbs.OpBind, Local: one, Access: both + 1}, 9, 0, "no such access"},
		{verbs.SendWR{Op: verbs.OpRecv}, 0, 0, "no such operation"},
		{verbs.SendWR{}, 0, 0, "no such operation"},
	} {
		if why := CheckSend(&c.wr, c.total, c.reads); why != c.why {
			t.Errorf("op %d, %d segments, %d bytes: %q, want %q", c.wr.Op, len(c.wr.Local), c.total, why, c.why)
		}
	}
}
