package nlm

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nlm/wire"
	"github.com/rdmafs/rdmafs/transport"
)

// Failure says why locks do not work.
type Failure uint8

const (
	// NotRegistered: rpcbind knows no NLM of version 4 over TCP, or there is none at
	// the port given.
	NotRegistered Failure = iota + 1
	// Unreachable: no answer from rpcbind, or from NLM.
	Unreachable
	// NoLocks: the server cannot keep locks of this client.
	NoLocks
	// Refused: the server refuses the lock.
	Refused
	// LostLock: the server has restarted, and somebody else has the lock.
	LostLock
)

// Error says why a lock was not taken, and what may help.
type Error struct {
	Failure Failure
	Host    string
	Why     string
	Hint    string
	Errno   syscall.Errno
	Err     error
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "locks on %s: %s", e.Host, e.Why)
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	if e.Hint != "" {
		fmt.Fprintf(&b, " (%s)", e.Hint)
	}
	return b.String()
}

// Unwrap gives the number that an application sees, and the cause.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Errno}
	}
	return []error{e.Errno, e.Err}
}

const orNolock = "otherwise mount with nolock: locks are then local to this mount"

func (c *Client) fail(f Failure, errno syscall.Errno, why, hint string, err error) *Error {
	return &Error{Failure: f, Host: c.cf.Host, Why: why, Hint: hint, Errno: errno, Err: err}
}

// unreachable explains why there is no connection.
func (c *Client) unreachable(err error) *Error {
	if known := (*Error)(nil); errors.As(err, &known) {
		return known
	}
	why, hint := "the lock manager (NLM) does not answer",
		"does a firewall let its port and that of rpcbind, 111, through? nlmport= names its port; "
	if errors.Is(err, syscall.ECONNREFUSED) {
		why, hint = "the lock manager (NLM), or rpcbind, refused the connection",
			"start them there: on a Linux server rpcbind and nfs-server; nlmport= names the port without rpcbind; "
	}
	return c.fail(Unreachable, syscall.ENOLCK, why, hint+orNolock, err)
}

func (c *Client) notRegistered(err error) *Error {
	return c.fail(NotRegistered, syscall.ENOLCK, "the server has no lock manager (NLM version 4 over TCP)",
		"start it there: on Linux nfs-server does, elsewhere rpc.lockd; nlmport= names its port if rpcbind does not; "+orNolock, err)
}

// answered explains a status that is neither Granted nor Denied.
func (c *Client) answered(s wire.Stat) error {
	cause := fmt.Errorf("the server answered: %v", s)
	switch s {
	case wire.Granted:
		return nil
	case wire.Denied, wire.Blocked:
		return nfsclient.ErrLocked
	case wire.DeniedNoLocks:
		return c.fail(NoLocks, syscall.ENOLCK, "the server cannot keep locks of this client",
			"on a Linux server start rpc.statd; "+orNolock, cause)
	case wire.Deadlock:
		return c.fail(Refused, syscall.EDEADLK, "deadlock", "", cause)
	case wire.ReadOnlyFS:
		return c.fail(Refused, syscall.EROFS, "read-only file system", "", cause)
	case wire.StaleHandle:
		return c.fail(Refused, syscall.ESTALE, "stale file handle", "", cause)
	case wire.TooBig:
		return c.fail(Refused, syscall.EOVERFLOW, "the range is too large for the server", "", cause)
	}
	hint := "may this user open the file as the lock demands?"
	if !c.cf.Reserved {
		hint = "export it with insecure, or run as root or with CAP_NET_BIND_SERVICE: otherwise the server demands a port below 1024; " + orNolock
	}
	return c.fail(Refused, syscall.ENOLCK, "the server refused the lock", hint, cause)
}

// refusedCall explains an error of a call that was answered by RPC alone, or nil.
func (c *Client) refusedCall(err error) error {
	var r *transport.RPCError
	switch {
	case !errors.As(err, &r):
		return nil
	case r.Denied:
		return c.fail(Refused, syscall.EACCES, "the lock manager denied the request", "", err)
	}
	return c.notRegistered(err)
}

// complain logs why locks do not work, once until they do again.
func (c *Client) complain(err error) {
	e := (*Error)(nil)
	if !errors.As(err, &e) || e.Failure == Refused && e.Errno != syscall.ENOLCK {
		return
	}
	c.mu.Lock()
	again := c.complained == e.Failure
	c.complained = e.Failure
	c.mu.Unlock()
	if !again {
		c.cf.Log.Warn(e.Error())
	}
}
