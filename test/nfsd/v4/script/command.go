package script

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

// Do changes the script, or has something happen at once. OP is the name of an operation, STATUS
// that of a status as in the RFC:
//
//	clear                        all is well again
//	fail OP STATUS [NTH [COUNT]]   the NTH OP and those after it, COUNT in all, fail
//	lose-call OP [NTH]            the NTH COMPOUND with OP is lost before it is carried out
//	lose-reply OP [NTH]           … is carried out, and its reply lost
//	delay N                      the next N of each kind are answered with NFS4ERR_DELAY
//	async-copy on|off             COPY is answered before it is carried out, if the client lets it
//	recall                       all delegations are recalled
//	recall-any KEEP               clients are asked to keep no more than KEEP delegations
//	expire                       all clients' leases end
//	expire-state                 … but their sessions stay
//	revoke                       all opens and locks are revoked
//	slots N                      sessions have N slots
//	restart grace|nograce         all state is forgotten, with or without a grace period
//	end-grace                    the grace period ends
func (s *Script) Do(line string) error {
	words := strings.Fields(line)
	if len(words) == 0 {
		return fmt.Errorf("script: no command")
	}
	c, ok := commands[words[0]]
	if !ok {
		return fmt.Errorf("script: unknown command %q", words[0])
	}
	if n := len(words) - 1; n < c.least || n > c.most {
		return fmt.Errorf("script: %s takes %d to %d arguments", words[0], c.least, c.most)
	}
	if err := c.do(s, words[1:]); err != nil {
		return fmt.Errorf("script: %s: %w", words[0], err)
	}
	return nil
}

type command struct {
	least, most int
	do          func(s *Script, args []string) error
}

// commands are those of Do.
var commands = map[string]command{
	"clear": {0, 0, func(s *Script, _ []string) error { s.Clear(); return nil }},
	"fail": {2, 4, func(s *Script, a []string) error {
		op, err := opNamed(a[0])
		if err != nil {
			return err
		}
		st, err := statusNamed(a[1])
		if err != nil {
			return err
		}
		n, err := numbers(a[2:], 1, 1)
		if err != nil {
			return err
		}
		s.Fail(op, st, n[0], n[1])
		return nil
	}},
	"lose-call":  {1, 2, func(s *Script, a []string) error { return lose(a, s.LoseCall) }},
	"lose-reply": {1, 2, func(s *Script, a []string) error { return lose(a, s.LoseReply) }},
	"delay": {1, 1, func(s *Script, a []string) error {
		n, err := numbers(a, 1)
		if err == nil {
			s.Delays(n[0])
		}
		return err
	}},
	"async-copy": {1, 1, func(s *Script, a []string) error {
		if a[0] != "on" && a[0] != "off" {
			return fmt.Errorf("%q is neither on nor off", a[0])
		}
		s.AsyncCopy(a[0] == "on")
		return nil
	}},
	"recall": {0, 0, func(s *Script, _ []string) error { s.Recall(); return nil }},
	"recall-any": {1, 1, func(s *Script, a []string) error {
		n, err := strconv.ParseUint(a[0], 10, 32)
		if err != nil {
			return err
		}
		return s.RecallAny(uint32(n))
	}},
	"expire":       {0, 0, func(s *Script, _ []string) error { s.Expire(); return nil }},
	"expire-state": {0, 0, func(s *Script, _ []string) error { s.ExpireState(); return nil }},
	"revoke":       {0, 0, func(s *Script, _ []string) error { s.Revoke(); return nil }},
	"slots": {1, 1, func(s *Script, a []string) error {
		n, err := numbers(a, 1)
		if err == nil {
			s.Slots(uint32(n[0]))
		}
		return err
	}},
	"restart": {1, 1, func(s *Script, a []string) error {
		if a[0] != "grace" && a[0] != "nograce" {
			return fmt.Errorf("%q is neither grace nor nograce", a[0])
		}
		s.Restart(a[0] == "grace")
		return nil
	}},
	"end-grace": {0, 0, func(s *Script, _ []string) error { s.attached().State().EndGrace(); return nil }},
}

// recallAnyTimeout bounds CB_RECALL_ANY to all clients.
const recallAnyTimeout = 10 * time.Second

// RecallAny asks each client that can be called to keep no more than so many delegations.
func (s *Script) RecallAny(keep uint32) error {
	ctx, cancel := context.WithTimeout(context.Background(), recallAnyTimeout)
	defer cancel()
	srv := s.attached()
	for _, id := range srv.State().Clients() {
		types := wire.Bitmap{1<<wire.RecallAnyReadDeleg | 1<<wire.RecallAnyWriteDeleg}
		if _, ok := srv.State().BackChannel(id, wire.SessionID{}); !ok {
			continue
		}
		st, err := srv.Back().Do(ctx, id, &wire.CBRecallAny{Keep: keep, Types: types})
		if err == nil && st != wire.OK {
			err = fmt.Errorf("CB_RECALL_ANY: %s", wire.StatusName(st))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func lose(a []string, f func(wire.Op, int)) error {
	op, err := opNamed(a[0])
	if err != nil {
		return err
	}
	n, err := numbers(a[1:], 1)
	if err == nil {
		f(op, n[0])
	}
	return err
}

// numbers reads positive numbers; those that are not there are as given.
func numbers(a []string, otherwise ...int) ([]int, error) {
	for i, w := range a {
		n, err := strconv.Atoi(w)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is not a number from 1 on", w)
		}
		otherwise[i] = n
	}
	return otherwise, nil
}

func opNamed(name string) (wire.Op, error) {
	for op := wire.OpAccess; op <= wire.OpRemoveXattr; op++ {
		if op.String() == name {
			return op, nil
		}
	}
	return 0, fmt.Errorf("no operation %q", name)
}

func statusNamed(name string) (wire.Status, error) {
	for st := wire.Status(1); st <= wire.ErrXattr2Big; st++ {
		if wire.StatusName(st) == name {
			return st, nil
		}
	}
	return 0, fmt.Errorf("no status %q", name)
}
