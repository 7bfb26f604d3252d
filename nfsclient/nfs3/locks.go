package nfs3

import (
	"context"
	"encoding/binary"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// Locks takes locks at the server, for which NFSv3 has a protocol of its own.
type Locks interface {
	nfsclient.Locker
	// Watch is that of nfsclient.Client.
	Watch(nfsclient.Watcher)
	// Restarted says that the server may have restarted: what it kept of locks may
	// be lost. It does not wait.
	Restarted()
	// Close gives back what is held and ends the connection.
	Close(context.Context) error
}

var _ nfsclient.Locker = (*Client)(nil)

// SetLock implements nfsclient.Locker.
func (c *Client) SetLock(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, st nfsclient.OpenState, owner nfsclient.LockOwner, l nfsclient.Lock) error {
	if c.cf.Locks == nil {
		return nfsclient.ErrNotSupported
	}
	return c.cf.Locks.SetLock(ctx, cr, h, st, owner, l)
}

// WaitLock implements nfsclient.Locker.
func (c *Client) WaitLock(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, st nfsclient.OpenState, owner nfsclient.LockOwner, l nfsclient.Lock) error {
	if c.cf.Locks == nil {
		return nfsclient.ErrNotSupported
	}
	return c.cf.Locks.WaitLock(ctx, cr, h, st, owner, l)
}

// TestLock implements nfsclient.Locker.
func (c *Client) TestLock(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, st nfsclient.OpenState, owner nfsclient.LockOwner, l nfsclient.Lock) (*nfsclient.Lock, error) {
	if c.cf.Locks == nil {
		return nil, nfsclient.ErrNotSupported
	}
	return c.cf.Locks.TestLock(ctx, cr, h, st, owner, l)
}

// sameServer tells Locks when the write verifier has changed: the server has
// restarted, or has lost data for another reason.
func (c *Client) sameServer(v nfsclient.Verifier) {
	if c.cf.Locks == nil {
		return
	}
	now := binary.BigEndian.Uint64(v[:])
	if c.verifier.Load() == now {
		return
	}
	if last := c.verifier.Swap(now); last != 0 && last != now {
		c.cf.Locks.Restarted()
	}
}
