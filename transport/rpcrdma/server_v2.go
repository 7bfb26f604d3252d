package rpcrdma

import (
	"context"
	"encoding/binary"

	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/verbs"
)

// What of the responder is for version 2 alone.

const (
	// ctlBytes is the room for messages about properties in a call. One
	// message from the client makes no more than two due.
	ctlBytes = 1024
	// maxCtl is the longest of them: a response with its two subsets.
	maxCtl = wire.FixedLen + 2*(4+wire.MaxProperties/8) + 4 + 12
)

// sendInline is the most that a message of the version to the client may hold.
func (c *serverConn) sendInline(version uint32) int {
	if version == Version2 && c.props != nil {
		return c.props.sendLimit()
	}
	return int(c.out.Load())
}

// learn takes what a message says about properties as soon as it arrives, so
// that it holds for the replies to all calls that were sent after it. The rest
// is the member's that takes it up.
func (c *serverConn) learn(w verbs.Completion) {
	if c.props != nil {
		c.props.took(int(w.ID))
	}
	if w.Invalidated && c.back != nil {
		c.back.keyInvalidated(w.InvalidatedKey)
	}
	b := c.recvBuf(int(w.ID)).Bytes()[:w.Len]
	if !c.s.cfg.Versions.Has(Version2) || !aboutProps(b) {
		return
	}
	m, _, err := wire.Parse(b, AllVersions)
	if err != nil {
		return // who takes it up answers that
	}
	c.props.begin(0) // before what the message makes due
	if err := c.props.received(m); err != nil {
		c.fail(err)
	}
}

// aboutProps reports whether a message is one about properties, if it can be
// parsed.
func aboutProps(b []byte) bool {
	if len(b) < wire.FixedLen || binary.BigEndian.Uint32(b[4:]) != Version2 {
		return false
	}
	proc := wire.Proc(binary.BigEndian.Uint32(b[12:]))
	return wire.ProcConnProp <= proc && proc <= wire.ProcUpdProp
}

// sendDue sends the messages about properties that are due, in their order.
func (k *serverCall) sendDue(ctx context.Context) error {
	k.c.sendingProps.Lock()
	defer k.c.sendingProps.Unlock()
	for k.ctlUsed+maxCtl <= k.ctl.Len {
		m := k.c.props.next()
		if m == nil {
			return nil
		}
		// The grant in force: for more the receives are not there yet.
		m.Fixed().Credits = uint32(max(1, k.c.granted.Load()))
		n := len(wire.Encode(k.ctl.Bytes()[k.ctlUsed:], m))
		k.WRs = append(k.WRs[:0], verbs.SendWR{Op: verbs.OpSend, Local: k.Local(k.ctl.Slice(k.ctlUsed, n))})
		k.ctlUsed += n
		k.refs.Add(1) // the completion's
		if err := k.c.post(ctx, k.id, k.WRs, k.wc[:]); err != nil {
			return err
		}
		k.c.s.count.Sent.Add(uint64(n))
		k.c.props.sent(m)
	}
	return nil
}
