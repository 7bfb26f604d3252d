package nfstest

import (
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/test/knfsd"
	"github.com/rdmafs/rdmafs/test/nfsd"
	"github.com/rdmafs/rdmafs/test/nfsd/v4/script"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/iwarp"
)

// own4 is the own server with a script of failures.
type own4 struct {
	*testing.T
	s      *nfsd.Server
	script *script.Script
	// dial connects, with a back channel or without.
	dial  func(t *testing.T) (transport.Caller, *backChannel)
	minor uint32
	back  bool
	// called counts the server's callbacks.
	called map[wire.CBOp]*atomic.Int64
}

// onOwn4 runs f on a server of its own for each minor version and transport: by TCP without a back
// channel, and over RDMA with one and with delegations. Of the four, two run unless all is asked for.
func onOwn4(t *testing.T, cfg nfsd.Config, f func(o *own4)) {
	eachMinor(t, func(t *testing.T, minor uint32) {
		for name, rdma := range map[string]bool{"tcp": false, "rdma": true} {
			t.Run(name, func(t *testing.T) {
				if rdma != (minor == 2) {
					knfsd.NeedAll(t)
				}
				o := &own4{T: t, script: script.New(), minor: minor, back: rdma, called: map[wire.CBOp]*atomic.Int64{}}
				for op := wire.OpCBGetAttr; op <= wire.OpCBOffload; op++ {
					o.called[op] = new(atomic.Int64)
				}
				cfg := cfg
				cfg.Delegations = rdma
				cfg.Wrap, cfg.Faults = o.script.Wrap, &nfsd.Faults{Operation: o.script.Operation,
					Callback: func(_ wire.ClientID, op wire.CBOp) { o.called[op].Add(1) }}
				var dev verbs.Device
				if rdma {
					d := iwarp.Open(iwarp.Config{})
					t.Cleanup(func() {
						if err := d.Close(); err != nil {
							t.Error(err)
						}
					})
					dev = d
				}
				var viaTCP, viaRDMA netip.AddrPort
				o.s, viaTCP, viaRDMA = serveConfig4(t, dev, nfsd.Export{}, cfg)
				o.script.Attach(o.s)
				o.dial = func(t *testing.T) (transport.Caller, *backChannel) { return dialHard(t, viaTCP), nil }
				if rdma {
					o.dial = func(t *testing.T) (transport.Caller, *backChannel) { return backRDMA(t, viaRDMA) }
				}
				f(o)
			})
		}
	})
}

func (o *own4) user(t *testing.T) *user4 {
	t.Helper()
	nfs, back := o.dial(t)
	if back == nil {
		return newUser4(t, nfs, o.minor, "/below/export")
	}
	return newBackUser4(t, nfs, back, o.minor, "/below/export")
}

// done is how often the server has carried out an operation.
func (o *own4) done(op string) uint64 { return o.s.Stats().Operations[op] }

// limited fails the test if f takes longer than a minute, with the server's failures ended, so that
// f returns.
func (o *own4) limited(what string, f func()) {
	o.Helper()
	t := time.AfterFunc(time.Minute, func() {
		o.Errorf("%s: still waiting after a minute", what)
		o.script.Clear()
		o.s.State().EndGrace()
	})
	defer t.Stop()
	f()
}

// act4 is something that a client does once: the operation that counts, what must be there
// before, and the call. The name is the test's.
type act4 struct {
	name, op string
	minor    uint32 // the lowest that has it
	do       func(u *user4, name string, prep *prepared4) error
}

// prepared4 is what was made for an act.
type prepared4 struct {
	h      nfsclient.Handle // a file with contents, of the act's name
	st     nfsclient.OpenState
	from   nfsclient.Handle // another one
	fromSt nfsclient.OpenState
	dir    nfsclient.Handle // an empty directory, called name + "-dir"
}

func (u *user4) prepare(name string) *prepared4 {
	u.Helper()
	p := &prepared4{}
	make := func(name string) (nfsclient.Handle, nfsclient.OpenState) {
		m, err := u.c.Create(u.Context(), nfsclient.Cred{}, u.root, name, nfsclient.SetAttr{Mode: ptr(uint32(0o644))}, false, nfsclient.OpenRead|nfsclient.OpenWrite)
		u.must(err)
		u.write(m.Handle, m.State, 0, "contents")
		return m.Handle, m.State
	}
	p.h, p.st = make(name)
	p.from, p.fromSt = make(name + "-from")
	d, err := u.c.Mkdir(u.Context(), nfsclient.Cred{}, u.root, name+"-dir", nfsclient.SetAttr{Mode: ptr(uint32(0o755))})
	u.must(err)
	p.dir = d.Handle
	u.must(u.set(u.Context(), p.h, p.st, 7, nfsclient.WriteLock, 100, 199))
	if x, ok := any(u.c).(nfsclient.Xattrs); ok {
		_, _ = x.SetXattr(u.Context(), nfsclient.Cred{}, p.h, "there", []byte("value"), nfsclient.XattrEither)
	}
	return p
}

// finish closes what an act has left open.
func (u *user4) finish(p *prepared4) {
	u.Helper()
	u.close(p.from, p.fromSt)
	if p.st != nil {
		u.close(p.h, p.st)
	}
}

// acts4 are all that must not happen twice.
var acts4 = []act4{
	{"create", "OPEN", 1, func(u *user4, name string, p *prepared4) error {
		m, err := u.c.Create(u.Context(), nfsclient.Cred{}, u.root, name+"-new", nfsclient.SetAttr{Mode: ptr(uint32(0o640))}, false, nfsclient.OpenWrite)
		if err == nil {
			u.close(m.Handle, m.State)
		}
		return err
	}},
	{"create exclusively", "OPEN", 1, func(u *user4, name string, p *prepared4) error {
		m, err := u.c.Create(u.Context(), nfsclient.Cred{}, u.root, name+"-new", nfsclient.SetAttr{Mode: ptr(uint32(0o640))}, true, nfsclient.OpenWrite)
		if err == nil {
			u.close(m.Handle, m.State)
		}
		return err
	}},
	{"mkdir", "CREATE", 1, func(u *user4, name string, p *prepared4) error {
		_, err := u.c.Mkdir(u.Context(), nfsclient.Cred{}, u.root, name+"-new", nfsclient.SetAttr{Mode: ptr(uint32(0o755))})
		return err
	}},
	{"symlink", "CREATE", 1, func(u *user4, name string, p *prepared4) error {
		_, err := u.c.Symlink(u.Context(), nfsclient.Cred{}, u.root, name+"-new", "target", nfsclient.SetAttr{})
		return err
	}},
	{"mkfifo", "CREATE", 1, func(u *user4, name string, p *prepared4) error {
		_, err := u.c.Mknod(u.Context(), nfsclient.Cred{}, u.root, name+"-new", nfsclient.FIFO, nfsclient.Device{}, nfsclient.SetAttr{Mode: ptr(uint32(0o600))})
		return err
	}},
	{"remove", "REMOVE", 1, func(u *user4, name string, p *prepared4) error {
		_, err := u.c.Remove(u.Context(), nfsclient.Cred{}, u.root, name+"-from")
		return err
	}},
	{"rmdir", "REMOVE", 1, func(u *user4, name string, p *prepared4) error {
		_, err := u.c.Rmdir(u.Context(), nfsclient.Cred{}, u.root, name+"-dir")
		return err
	}},
	{"rename", "RENAME", 1, func(u *user4, name string, p *prepared4) error {
		_, _, err := u.c.Rename(u.Context(), nfsclient.Cred{}, u.root, name, p.dir, "moved")
		return err
	}},
	{"link", "LINK", 1, func(u *user4, name string, p *prepared4) error {
		_, _, err := u.c.Link(u.Context(), nfsclient.Cred{}, p.h, u.root, name+"-new")
		return err
	}},
	{"chmod", "SETATTR", 1, func(u *user4, name string, p *prepared4) error {
		_, err := u.c.SetAttr(u.Context(), nfsclient.Cred{}, p.h, nil, nfsclient.SetAttr{Mode: ptr(uint32(0o600))})
		return err
	}},
	{"truncate", "SETATTR", 1, func(u *user4, name string, p *prepared4) error {
		_, err := u.c.SetAttr(u.Context(), nfsclient.Cred{}, p.h, p.st, nfsclient.SetAttr{Size: ptr(uint64(3))})
		return err
	}},
	{"open", "OPEN", 1, func(u *user4, name string, p *prepared4) error {
		o, err := u.c.OpenFile(u.Context(), nfsclient.Cred{}, p.h, nfsclient.OpenRead)
		if err == nil {
			u.close(p.h, o.State)
		}
		return err
	}},
	{"close", "CLOSE", 1, func(u *user4, name string, p *prepared4) error {
		u.must(u.set(u.Context(), p.h, p.st, 7, nfsclient.Unlocked, 0, toEnd))
		err := u.c.CloseFile(u.Context(), nfsclient.Cred{}, p.h, p.st)
		p.st = nil
		return err
	}},
	{"lock", "LOCK", 1, func(u *user4, name string, p *prepared4) error {
		return u.set(u.Context(), p.h, p.st, 8, nfsclient.WriteLock, 0, 9)
	}},
	{"lock more", "LOCK", 1, func(u *user4, name string, p *prepared4) error {
		return u.set(u.Context(), p.h, p.st, 7, nfsclient.WriteLock, 0, 9)
	}},
	{"unlock", "LOCKU", 1, func(u *user4, name string, p *prepared4) error {
		return u.set(u.Context(), p.h, p.st, 7, nfsclient.Unlocked, 120, 129)
	}},
	{"set an attribute", "SETXATTR", 2, func(u *user4, name string, p *prepared4) error {
		_, err := u.c.SetXattr(u.Context(), nfsclient.Cred{}, p.h, "new", []byte("value"), nfsclient.XattrCreate)
		return err
	}},
	{"remove an attribute", "REMOVEXATTR", 2, func(u *user4, name string, p *prepared4) error {
		_, err := u.c.RemoveXattr(u.Context(), nfsclient.Cred{}, p.h, "there")
		return err
	}},
	{"copy", "COPY", 2, func(u *user4, name string, p *prepared4) error {
		_, err := u.c.Copy(u.Context(), nfsclient.Cred{}, p.from, p.fromSt, 0, p.h, p.st, 0, 8)
		return err
	}},
}
