package nfs4

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/mark"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/session"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/nfsclient/pathbuf"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// Client is a mounted export. It implements nfsclient.Client, nfsclient.Locker, nfsclient.Ranges
// and nfsclient.Xattrs.
type Client struct {
	cf       Config
	ses      *session.Session
	root     nfsclient.Handle
	rootAttr nfsclient.Attr
	info     nfsclient.Info
	fs       fileSystem
	paths    *pathbuf.Pool
	owners   owners
	copies   copies
	marks    mark.Marks
	// elsewhere is what the log was told of names that lead to other servers.
	elsewhere elsewhere
	// sleep waits between tries of what the server asks to try later.
	sleep func(ctx context.Context, d time.Duration) error

	// life ends with Close. Calls that must run to their end, whatever becomes of who has asked
	// for them, are bounded by it and counted in running.
	life    context.Context
	end     context.CancelFunc
	running sync.WaitGroup

	opened  atomic.Uint64 // for open-owners
	lockers atomic.Uint64 // for lock-owners
	watcher watcher
	state   stateTable

	closeOnce sync.Once
	closeErr  error
}

var (
	_ nfsclient.Client = (*Client)(nil)
	_ nfsclient.Locker = (*Client)(nil)
	_ nfsclient.Ranges = (*Client)(nil)
	_ nfsclient.Xattrs = (*Client)(nil)

	_ nfsclient.NFS4ACLs = (*Client)(nil)
)

// watcher holds the Client's Watcher. mu is held while it is called, so that Watch returns when
// the one before is not called any more.
type watcher struct {
	mu sync.RWMutex
	w  nfsclient.Watcher
}

func (w *watcher) lost(h nfsclient.Handle, owner *nfsclient.LockOwner, err error) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.w != nil {
		w.w.Lost(h, owner, err)
	}
}

func (w *watcher) recalled(ctx context.Context, h nfsclient.Handle) error {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.w != nil {
		return w.w.Recalled(ctx, h)
	}
	return nil
}

// Root implements nfsclient.Client.
func (c *Client) Root() (nfsclient.Handle, nfsclient.Attr) { return c.root, c.rootAttr }

// Info implements nfsclient.Client.
func (c *Client) Info() nfsclient.Info { return c.info }

// Watch implements nfsclient.Client.
func (c *Client) Watch(w nfsclient.Watcher) {
	c.watcher.mu.Lock()
	defer c.watcher.mu.Unlock()
	c.watcher.w = w
}

// Register implements nfsclient.Client.
func (c *Client) Register(a *mem.Arena) error { return c.cf.Caller.Register(a) }

// Unregister implements nfsclient.Client.
func (c *Client) Unregister(a *mem.Arena) error { return c.cf.Caller.Unregister(a) }

// Close implements nfsclient.Client. What is open is closed, which gives back its locks.
func (c *Client) Close(ctx context.Context) error {
	c.closeOnce.Do(func() {
		c.closeAll(ctx)
		if c.delegated() {
			c.cf.Callbacks.Attach(nil)
		}
		c.end()
		c.running.Wait()
		err := c.ses.Close(ctx)
		c.closeErr = errors.Join(err, c.cf.Caller.Close(), c.paths.Close())
	})
	return c.closeErr
}

// Delays before another try of what the server asks to try later.
const (
	firstDelay = 100 * time.Millisecond
	lastDelay  = 5 * time.Second
	// maxResource bounds the tries of what the server has no resources for (NFS4ERR_RESOURCE). It may never
	// have them: nfs-ganesha answers so where a request asks for what it cannot do.
	maxResource = 8
)

// request is one compound on behalf of a user.
type request struct {
	op string // what errors name
	// at is the operation that the call is for: what comes behind it may fail and is then merely
	// missing from the result.
	at int
	// impatient: DELAY and GRACE are returned to the caller, as ErrJukebox.
	impatient bool
	// again: it was sent as a new request after one that the server may have carried out, in a session that is lost, or
	// before it asked to try later.
	again bool
	sys   transport.AuthSys
	session.Call
}

// has reports whether operation i was carried out.
func (q *request) has(i int) bool {
	return i < q.Done-1 || i == q.Done-1 && q.Status == wire.OK
}

// statusError is an answer that is the client's own affair: it never reaches the caller.
type statusError struct {
	op     string
	status wire.Status
}

func (e *statusError) Error() string { return fmt.Sprintf("%s: %v", e.op, e.status) }

// do calls until the server's answer is neither DELAY nor GRACE, unless q is impatient; and a bounded number of
// times while it is RESOURCE. Answers other than OK are *nfsclient.Error where that has the status.
func (c *Client) do(ctx context.Context, cr nfsclient.Cred, q *request) error {
	q.sys = c.cf.sys(cr)
	q.Cred = &q.sys
	q.Wait = unsentOf(ctx)
	scarce := 0
	for delay := firstDelay; ; delay = min(2*delay, lastDelay) {
		if err := c.ses.Do(ctx, &q.Call); err != nil {
			return fmt.Errorf("%s: %w", q.op, err)
		}
		q.again, q.Wait = q.again || q.Repeated, nil
		if q.has(q.at) {
			return nil
		}
		if q.Status == wire.ErrResource {
			if scarce++; scarce == maxResource {
				c.cf.Log.Warn(fmt.Sprintf("%s: %s given up: server has answered %d times that it has no resources for it", c.cf.Host, q.op, scarce))
				return c.answer(q)
			}
		} else if !later(q.Status) || q.impatient {
			return c.answer(q)
		}
		q.again = true
		if delay == firstDelay {
			c.cf.Log.Info(fmt.Sprintf("%s: server asks to try %s later (%s)", c.cf.Host, q.op, wire.StatusName(q.Status)))
		}
		if err := c.sleep(ctx, delay); err != nil {
			return fmt.Errorf("%s: server asked to try later: %w", q.op, err)
		}
	}
}

// giving is do for a call that gives back what the server keeps for a user. If he has no credential any more it is made with
// the mount's own: nobody else could take a lock that stays at the server, and what is open ends with the mount alone.
func (c *Client) giving(ctx context.Context, cr nfsclient.Cred, q *request) error {
	err := c.do(ctx, cr, q)
	if errors.Is(err, transport.ErrNoCredential) {
		return c.do(ctx, c.cf.Cred, q)
	}
	return err
}

// broken is the error for a reply that violates the protocol.
func broken(op, format string, args ...any) error {
	return fmt.Errorf("%s: %w: server's answer has %s", op, &transport.Error{Fate: transport.Answered, Err: transport.ErrProtocol},
		fmt.Sprintf(format, args...))
}

// answered reports whether the server's answer is in err, or err is nil.
func answered(err error) bool {
	_, ok := nfsclient.StatusOf(err)
	return ok
}

// unsent is the context of who may give up the first call of a finish until that is sent.
type unsent struct {
	ctx  context.Context
	over atomic.Bool
}

// unsentKey is the key of a context's value, an *unsent.
type unsentKey struct{}

// unsentOf is whose patience a call waits with until it is sent, nil if that makes no difference.
func unsentOf(ctx context.Context) context.Context {
	if u, _ := ctx.Value(unsentKey{}).(*unsent); u != nil && u.over.CompareAndSwap(false, true) {
		return u.ctx
	}
	return nil
}

// finish runs f to its end, even if ctx ends before; it then returns ctx's error, and undo is run
// if f succeeds all the same. A call that makes state at the server must not be left in between. Before f's first call is sent f ends
// with ctx: a silent server would else collect the calls of all who have given up.
func (c *Client) finish(ctx context.Context, f func(ctx context.Context) error, undo func(ctx context.Context)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	u := &unsent{ctx: ctx}
	return c.surely(ctx, func(life context.Context) error { return f(context.WithValue(life, unsentKey{}, u)) }, undo)
}

// surely is finish for what is to be done even if ctx has ended already: to give something back.
func (c *Client) surely(ctx context.Context, f func(ctx context.Context) error, undo func(ctx context.Context)) error {
	done, given := make(chan error), make(chan struct{})
	if !c.state.spawn(&c.running, func() { c.runFinish(f, undo, done, given) }) {
		return transport.ErrClosed
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		close(given)
		return ctx.Err()
	}
}

func (c *Client) runFinish(f func(ctx context.Context) error, undo func(ctx context.Context), done chan<- error, given <-chan struct{}) {
	err := f(c.life)
	select {
	case done <- err:
	case <-given:
		if err == nil && undo != nil {
			undo(c.life)
		}
	}
}

// checkName refuses names that no file of this server can have.
func (c *Client) checkName(op, name string) error {
	return nfsclient.CheckName(op, name, c.info.NameMax)
}
