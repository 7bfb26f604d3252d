package nlm

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nlm/wire"
	"github.com/rdmafs/rdmafs/nfsclient/ranges"
	"github.com/rdmafs/rdmafs/transport"
)

// identity is what a server knows an owner by. Linux servers know it by this host's
// address and svid alone: all that take locks from one address share the numbers, the
// kernel's own client among them, which counts from small ones. Two owners with one
// number would both be granted an exclusive lock.
type identity struct {
	svid int32
	oh   string
	refs int // holders; guarded by Client.mu
}

// svids are the numbers in use in this process, for several mounts.
var svids = struct {
	mu   sync.Mutex
	used map[int32]bool
}{used: map[int32]bool{}}

// newSVID chooses a number at random. Servers take it for signed: it is positive.
func newSVID() int32 {
	svids.mu.Lock()
	defer svids.mu.Unlock()
	for {
		var b [4]byte
		_, _ = rand.Read(b[:]) // it never fails
		n := int32(binary.BigEndian.Uint32(b[:]) & 0x7fffffff)
		if n != 0 && !svids.used[n] {
			svids.used[n] = true
			return n
		}
	}
}

func freeSVID(n int32) {
	svids.mu.Lock()
	defer svids.mu.Unlock()
	delete(svids.used, n)
}

// key is an owner in a file.
type key struct {
	handle nfsclient.Handle
	owner  nfsclient.LockOwner
}

// holder is one owner in one file.
type holder struct {
	key
	id *identity
	// turn is given to who makes a call for the holder, or changes what it holds.
	turn chan struct{}

	// Of who has the turn:
	cred nfsclient.Cred
	note note // in the journal

	users int        // requests under way; guarded by Client.mu
	set   ranges.Set // changed by who has the turn, with Client.mu held
}

// enter finds or makes the holder of a request, and gives it its turn.
func (c *Client) enter(ctx context.Context, k key) (*holder, error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, transport.ErrClosed
	}
	h := c.holders[k]
	if h == nil {
		id := c.owners[k.owner]
		if id == nil {
			id = &identity{svid: newSVID(), oh: c.newOH()}
			c.owners[k.owner] = id
		}
		id.refs++
		h = &holder{key: k, id: id, turn: make(chan struct{}, 1)}
		h.turn <- struct{}{}
		c.holders[k] = h
	}
	h.users++
	c.mu.Unlock()
	if err := c.takeTurn(ctx, h); err != nil {
		c.leave(h)
		return nil, err
	}
	return h, nil
}

// takeTurn waits for the turn.
func (c *Client) takeTurn(ctx context.Context, h *holder) error {
	select {
	case <-h.turn:
		if c.ending.Err() != nil {
			h.giveTurn()
			return transport.ErrClosed
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.ending.Done():
		return transport.ErrClosed
	}
}

func (h *holder) giveTurn() { h.turn <- struct{}{} }

// leave ends a request, without the turn. A holder of nothing is forgotten.
func (c *Client) leave(h *holder) {
	c.mu.Lock()
	h.users--
	if h.users > 0 || len(h.set) > 0 {
		c.mu.Unlock()
		return
	}
	delete(c.holders, h.key)
	if h.id.refs--; h.id.refs == 0 {
		delete(c.owners, h.owner)
		freeSVID(h.id.svid)
	}
	c.mu.Unlock()
	// Nobody else has h now.
	if err := c.journal.remove(h.note); err != nil {
		c.cf.Log.Warn(fmt.Sprintf("locks on %s: journal: %v", c.cf.Host, err))
	}
}

// exit gives the turn back and ends the request.
func (c *Client) exit(h *holder) {
	h.giveTurn()
	c.leave(h)
}

// newOH is unique: servers other than Linux may know owners by it. mu is held.
func (c *Client) newOH() string {
	c.lastOH++
	return string(binary.BigEndian.AppendUint64([]byte(c.prefix), c.lastOH))
}

// change replaces what h holds. The caller has the turn.
func (c *Client) change(h *holder, set ranges.Set) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.heldRanges == 0 && len(set) > 0 {
		signal(c.held)
	}
	c.heldRanges += len(set) - len(h.set)
	h.set = set
}

// maxOffset is the largest of file systems; a range that ends there is one to the
// end of the file.
const maxOffset = 1<<63 - 1

// wireLock is a range of h's as the protocol has it.
func (c *Client) wireLock(h *holder, first, last uint64) wire.Lock {
	l := wire.Lock{Caller: c.cf.MachineName, Handle: h.handle, OH: h.id.oh, SVID: h.id.svid, Offset: first}
	if last < maxOffset {
		l.Length = last - first + 1
	}
	return l
}
