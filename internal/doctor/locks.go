package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nlm"
)

// locksTimeout bounds the question for a lock. A lock manager that does not answer is
// known as such before.
const locksTimeout = 15 * time.Second

// whole is a lock on all of a file.
const whole = 1<<64 - 1

// askLocks tries the server's locks. They do not keep the mount from succeeding: whatever is
// amiss is a warning. Only a file that was made here is ever locked, for a moment: nobody
// else knows of it. Of one that was there before, or of the directory, it is only
// asked whether it could be, which changes nothing at the server; but then a Linux
// server does not tell whether its rpc.statd runs.
func (e *examination) askLocks(ctx context.Context, d *directory) Step {
	const name = "locks"
	server, has := d.Client.(nfsclient.Locker)
	if !e.Locks || !has {
		return skipped(name, "the options keep them local to the mount")
	}
	bounded, cancel := context.WithTimeout(ctx, locksTimeout)
	defer cancel()
	what, err := d.tryLock(bounded, server)
	var known *nlm.Error
	switch {
	case err == nil:
		return ok(name, what)
	case errors.Is(err, errNoFile):
		return skipped(name, "the lock manager answers, but there is no file to lock: none was made, and none in the export's top directory may be read")
	case !errors.As(err, &known) && bounded.Err() != nil && ctx.Err() == nil:
		return warning(name, fmt.Sprintf("the server granted none within %v", locksTimeout),
			"try again in two minutes: a server that has just been started at first grants none but those that it had granted before")
	}
	what, remedy := e.Explain(err)
	return warning(name, what, remedy)
}

// tryLock asks for a lock, and says how. errNoFile: the lock manager answers, but there
// is no file to ask it for.
func (d *directory) tryLock(ctx context.Context, server nfsclient.Locker) (what string, err error) {
	const owner = 1
	if h := nfsclient.Handle(d.file); h != "" {
		l := nfsclient.Lock{Type: nfsclient.WriteLock, Last: whole}
		st, err := d.open(ctx, h, nfsclient.OpenRead|nfsclient.OpenWrite)
		if err != nil {
			return "", err
		}
		defer d.close(ctx, h, st)
		start := time.Now()
		if err := server.SetLock(ctx, d.cred, h, st, owner, l); err != nil {
			return "", err
		}
		l.Type = nfsclient.Unlocked
		if err := server.SetLock(ctx, d.cred, h, st, owner, l); err != nil {
			return "", err
		}
		return fmt.Sprintf("taken and given back in %s", time.Since(start).Round(10*time.Microsecond)), nil
	}
	l := nfsclient.Lock{Type: nfsclient.ReadLock, Last: whole}
	for _, f := range d.files(ctx) {
		may, _, err := d.Access(ctx, d.cred, f.Handle, nfsclient.AccessRead)
		if err != nil || may&nfsclient.AccessRead == 0 {
			continue
		}
		if _, err := server.TestLock(ctx, d.cred, f.Handle, nil, owner, l); err != nil {
			return "", err
		}
		return "the server answers for a file that is there; none was taken", nil
	}
	// Servers refuse to test a directory, as they refuse a file to the wrong port.
	_, err = server.TestLock(ctx, d.cred, d.h, nil, owner, l)
	refused, answer := (*nlm.Error)(nil), (*nfsclient.Error)(nil)
	if err == nil || errors.As(err, &refused) && refused.Failure == nlm.Refused || errors.As(err, &answer) {
		err = errNoFile
	}
	return "", err
}

// open opens a file at the server, which locks a file only for who has it open where its protocol
// opens files.
func (d *directory) open(ctx context.Context, h nfsclient.Handle, mode nfsclient.OpenMode) (nfsclient.OpenState, error) {
	o, err := d.OpenFile(ctx, d.cred, h, mode)
	return o.State, err
}

// close gives back what open returned. What a server says to it changes nothing here.
func (d *directory) close(ctx context.Context, h nfsclient.Handle, st nfsclient.OpenState) {
	if st != nil {
		_ = d.CloseFile(context.WithoutCancel(ctx), d.cred, h, st)
	}
}
