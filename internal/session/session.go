package session

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/rdmafs/rdmafs/cache"
	"github.com/rdmafs/rdmafs/cache/bufpool"
	"github.com/rdmafs/rdmafs/internal/options"
	"github.com/rdmafs/rdmafs/internal/providers"
	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3"
	sessions "github.com/rdmafs/rdmafs/nfsclient/nfs4/session"
	"github.com/rdmafs/rdmafs/nfsclient/nlm"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/account"
	"github.com/rdmafs/rdmafs/transport/reconnect"
)

// readAheadBytes is an open file's read-ahead window. It takes a quarter of buffers
// that Config bounds.
const readAheadBytes = 8 << 20

// Session is a way to a server and, in this order, a connection, a mounted export
// and a cache over it.
type Session struct {
	cfg    Config
	addr   netip.AddrPort
	route  *providers.Route
	caller *reconnect.Caller
	binder sessions.Binder  // of NFSv4's session
	owner  *owner4          // nil before NFSv4's session
	client nfsclient.Client // nil before MountExport
	pool   *bufpool.Pool    // nil before StartCache
	cache  *cache.Cache
	opened time.Time
	check  lockCheck
	locks  atomic.Pointer[nlm.Client] // nil without locks at the server
	// changed are the options since Change; nil before.
	changed atomic.Pointer[options.Options]
}

// Open connects, mounts the export and starts a cache. kernel may be nil; there are
// no locks at the server then.
func Open(ctx context.Context, cfg Config, kernel cache.Kernel) (*Session, error) {
	if kernel == nil {
		cfg.Options.NoLock = true // nobody can lock
	}
	s, err := Connect(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := s.StartCache(kernel); err != nil {
		_ = s.Close(ctx) // nothing was written yet
		return nil, err
	}
	return s, nil
}

// newSession is a session over a route, not yet connected.
func newSession(cfg *Config, addr netip.AddrPort, r *providers.Route) *Session {
	s := &Session{cfg: *cfg, addr: addr, route: r, opened: time.Now()}
	s.cfg.account = account.New(programs(&cfg.Options))
	s.caller = reconnect.New(s.secured(s.watched(s.spread(r.Dialer))), reconnect.Config{
		Timeo:     cfg.Options.Timeo,
		Retrans:   cfg.Options.Retrans,
		Soft:      cfg.Options.Soft,
		SoftErr:   cfg.Options.SoftErr,
		NConnect:  cfg.Options.NConnect,
		Establish: s.binder.Establish, // without a session it does nothing
		Keep:      s.binder.Keep,
		Server:    cfg.Source.Host,
		Account:   s.cfg.account,
		Slow:      cfg.Options.Slow,
		Log:       cfg.log(),
	})
	return s
}

// Dial makes a connection that the session does not use. The caller closes it.
func (s *Session) Dial(ctx context.Context) (transport.Link, error) {
	l, err := s.route.Dialer.Dial(ctx)
	if err != nil {
		return nil, s.explainConnect(err)
	}
	return l, nil
}

// Connect connects over the session's route.
func (s *Session) Connect(ctx context.Context) error {
	if err := s.caller.Connect(ctx); err != nil {
		return &unreachableError{s.explainConnect(err)}
	}
	return nil
}

// MountExport mounts the export over the session's connection.
func (s *Session) MountExport(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ConnectTimeout())
	defer cancel()
	mount := s.mountVersion3
	if s.cfg.Options.Minors() != nil {
		mount = s.mountVersion4
	}
	if err := mount(ctx); err != nil {
		return err
	}
	if e := s.Encryption(); e != "" {
		beside := ""
		if s.cfg.Options.Minors() == nil {
			beside = "; MOUNT, and locks at the server, are not: version 4 has them inside (vers=4.2)"
		}
		s.cfg.log().Info(fmt.Sprintf("NFS with %s is encrypted: %s%s", s.addr, e, beside))
		if _, exposed := s.route.EncryptedUntil(); exposed != "" {
			s.cfg.log().Warn(fmt.Sprintf("others than its owner may read the private key in %s (chmod 600 keeps them out)", exposed))
		}
	}
	if v := s.caller.Stats().Terms.Version; s.cfg.Options.RDMAVers == "2" && v == 1 {
		s.cfg.log().Warn(fmt.Sprintf("%s does not have version 2 of RPC-over-RDMA, which rdmavers=2 asks for: version 1 is used (rdmavers=auto does not warn)", s.addr))
	}
	return nil
}

// mountVersion3 mounts with the help of MOUNT, and of NLM for locks.
func (s *Session) mountVersion3(ctx context.Context) error {
	o := &s.cfg.Options
	at, err := s.mountAddr(ctx)
	if err != nil {
		return err
	}
	config := s.cfg.mountd(at)
	config.Caller, config.RSize, config.WSize, config.ACL, config.NoReadDirPlus = s.caller, o.RSize, o.WSize, !o.NoACL, o.NoReadDirPlus
	config.Flavor = s.cfg.security().flavor
	locks := s.newLocks()
	if locks != nil {
		config.Locks = locks
		s.locks.Store(locks)
		s.checkLocks(locks)
	}
	c, err := nfs3.Mount(ctx, config)
	if err != nil {
		s.stopCheck()
		err = s.cfg.refusedInside(err)
		if locks != nil {
			err = errors.Join(err, locks.Close(ctx))
		}
		return err
	}
	s.client = nfs3.Follow(c)
	s.awaitCheck()
	return nil
}

// StartCache makes the buffers and the cache of a mounted session. kernel may be
// nil. When it fails the session must still be closed.
func (s *Session) StartCache(kernel cache.Kernel) error {
	limit, readAhead := s.route.Memory.Pool, readAheadBytes
	if b := s.cfg.Buffers; b > 0 {
		limit = min(limit, b)
		readAhead = min(readAhead, limit/4)
	}
	pool, err := bufpool.New(bufpool.Config{Limit: limit, Register: s.client.Register, Unregister: s.client.Unregister, Trim: !s.route.Memory.Pinned, Idle: s.cfg.Idle})
	if err != nil {
		return err
	}
	if err := pool.Reserve(); err != nil {
		return errors.Join(err, pool.Close())
	}
	info, o := s.client.Info(), &s.cfg.Options
	c, err := cache.New(s.client, pool, cache.Config{
		RSize: info.ReadMax, WSize: info.WriteMax,
		AcRegMin: o.AcRegMin, AcRegMax: o.AcRegMax,
		AcDirMin: o.AcDirMin, AcDirMax: o.AcDirMax,
		NoAC:      o.NoAC,
		NoCTO:     o.NoCTO,
		SoftReval: s.softReval(),
		Names:     map[string]cache.Names{"pos": cache.ExistingNames, "positive": cache.ExistingNames, "none": cache.NoNames}[o.LookupCache],
		ReadOnly:  o.ReadOnly,
		ReadAhead: readAhead,
		Kernel:    kernel,
		Subjects:  o.Slow > 0,
		Log:       s.cfg.log(),
	})
	if err != nil {
		return errors.Join(err, pool.Close())
	}
	s.pool, s.cache = pool, c
	return nil
}

// unmountTimeout bounds telling mountd that the export is not used any more.
const unmountTimeout = 5 * time.Second

// Close writes everything that is not safe yet, unmounts the export and
// disconnects. An error means that data was lost. A server that is away is
// waited for, as hard mounts do, until ctx ends.
func (s *Session) Close(ctx context.Context) error {
	var lost error
	if s.cache != nil {
		lost = s.cache.Close(ctx)
	}
	if s.pool != nil {
		if err := s.pool.Close(); err != nil {
			s.cfg.log().Warn(fmt.Sprintf("closing the buffers: %v", err))
		}
	}
	if s.client == nil {
		s.closeTransport()
		return lost
	}
	s.stopCheck()
	ctx, cancel := context.WithTimeout(ctx, unmountTimeout)
	defer cancel()
	err := s.client.Close(ctx) // and the caller with it
	if err != nil {
		s.cfg.log().Info(fmt.Sprintf("unmounting at the server: %v", err))
	}
	if err := s.owner.release(err == nil); err != nil {
		s.cfg.log().Info(fmt.Sprintf("forgetting the client's name: %v", err))
	}
	s.route.Close()
	return lost
}

// closeTransport is Close for a session without a mounted export.
func (s *Session) closeTransport() {
	_ = s.caller.Close()
	s.route.Close()
}
