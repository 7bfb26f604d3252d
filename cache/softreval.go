package cache

import (
	"context"
	"errors"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/transport"
)

// With softreval, what is cached outlives a server that does not answer: when the call that was to
// tell whether a name, attributes or rights still hold has been given up, they are used as they were
// last known, and only for this once. Names that did not exist are not believed for longer.

// revalidator makes the calls that tell whether names, attributes and rights still hold.
type revalidator interface {
	GetAttr(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle) (nfsclient.Attr, error)
	Lookup(ctx context.Context, cr nfsclient.Cred, dir nfsclient.Handle, name string) (nfsclient.Found, error)
	Access(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, want nfsclient.AccessMask) (nfsclient.AccessMask, *nfsclient.Attr, error)
}

// softly is a revalidator that gives up after a time.
type softly struct {
	cl    nfsclient.Client
	limit func(context.Context) (context.Context, context.CancelFunc)
}

// silentError says that a revalidator has given up.
type silentError struct {
	Err error
	// final: the client has given up by itself, as on a soft mount. Otherwise it makes the call again, and
	// waits as on a hard one, if nothing is known to go on with.
	final bool
}

func (e *silentError) Error() string { return e.Err.Error() }

func (e *silentError) Unwrap() error { return e.Err }

// within makes a call, whose error is a *silentError if the server has not answered in its time.
func (s *softly) within(ctx context.Context, call func(context.Context) error) error {
	limited, cancel := s.limit(ctx)
	defer cancel()
	err := call(limited)
	if errors.Is(err, transport.ErrTimeout) {
		return &silentError{err, true}
	}
	if err != nil && errors.Is(err, limited.Err()) && ctx.Err() == nil {
		return &silentError{err, false}
	}
	return err
}

func (s *softly) GetAttr(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle) (a nfsclient.Attr, err error) {
	err = s.within(ctx, func(ctx context.Context) error {
		a, err = s.cl.GetAttr(ctx, cr, h)
		return err
	})
	return a, err
}

func (s *softly) Lookup(ctx context.Context, cr nfsclient.Cred, dir nfsclient.Handle, name string) (f nfsclient.Found, err error) {
	err = s.within(ctx, func(ctx context.Context) error {
		f, err = s.cl.Lookup(ctx, cr, dir, name)
		return err
	})
	return f, err
}

func (s *softly) Access(ctx context.Context, cr nfsclient.Cred, h nfsclient.Handle, want nfsclient.AccessMask) (got nfsclient.AccessMask, a *nfsclient.Attr, err error) {
	err = s.within(ctx, func(ctx context.Context) error {
		got, a, err = s.cl.Access(ctx, cr, h, want)
		return err
	})
	return got, a, err
}

// lookupSoftly is lookupServer, or the name as it was last known.
func (c *Cache) lookupSoftly(ctx context.Context, cr nfsclient.Cred, dir *Inode, name string) (Entry, error) {
	e, err := c.lookupBy(ctx, c.asks, cr, dir, name)
	var silent *silentError
	if err == nil || !errors.As(err, &silent) {
		return e, err
	}
	last, ok := c.lastName(&cr, dir, name)
	switch {
	case ok:
		return last, nil
	case !silent.final:
		return c.lookupServer(ctx, cr, dir, name)
	}
	return Entry{}, silent.Err
}

// lastName is a name that existed when the server was asked last, for a user who might look it up
// then. The kernel may keep none of it.
func (c *Cache) lastName(cr *nfsclient.Cred, dir *Inode, name string) (e Entry, ok bool) {
	dir.mu.Lock()
	d := dir.dentry(name)
	got, known := dir.rights.Last(c.user(cr), nfsclient.AccessLookup)
	if d == nil || d.child == nil || !dir.node.Valid() || !known || got == 0 {
		dir.mu.Unlock()
		return Entry{}, false
	}
	d.shown = true
	e.Inode = d.child
	d.child.refs.Add(1)
	dir.mu.Unlock()
	e, _, ok = c.asKnown(e, c.cfg.Now(), false)
	return e, ok
}

// revalidateSoftly is revalidate, which also succeeds without an answer if the attributes have merely
// expired.
func (c *Cache) revalidateSoftly(ctx context.Context, cr nfsclient.Cred, i *Inode) error {
	err := c.revalidateBy(ctx, c.asks, cr, i)
	var silent *silentError
	if err == nil || !errors.As(err, &silent) {
		return err
	}
	i.mu.Lock()
	usable := i.node.Valid()
	i.mu.Unlock()
	switch {
	case usable:
		return nil
	case !silent.final:
		return c.revalidate(ctx, cr, i)
	}
	return silent.Err
}

// accessSoftly is askAccess, or the rights that the user had when the server was asked last.
func (c *Cache) accessSoftly(ctx context.Context, cr nfsclient.Cred, k userKey, i *Inode, want nfsclient.AccessMask) (nfsclient.AccessMask, error) {
	got, _, err := c.accessBy(ctx, c.asks, cr, k, i, want)
	var silent *silentError
	if err == nil || !errors.As(err, &silent) {
		return got, err
	}
	i.mu.Lock()
	got, known := i.rights.Last(k, want)
	known = known && i.node.Valid()
	i.mu.Unlock()
	switch {
	case known:
		return got, nil
	case !silent.final:
		got, _, err = c.askAccess(ctx, cr, k, i, want)
		return got, err
	}
	return 0, silent.Err
}
