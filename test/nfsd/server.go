package nfsd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/test/nfsd/v4"
	"github.com/rdmafs/rdmafs/test/nfsd/v4/back"
	"github.com/rdmafs/rdmafs/test/nfsd/v4/state"
	"github.com/rdmafs/rdmafs/test/nfsd/vfs"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcsecgss"
)

// Server serves exports. Its methods may be called from any goroutine.
type Server struct {
	cfg     Config
	exports []*export
	byID    map[uint32]*export
	// again are exports by the ids that they were exported with anew; guarded by replacing.
	again   map[uint32]*export
	v4      *v4.Server     // nil if version 4 is not served
	state   *state.Machine // likewise
	back    *back.Caller   // likewise
	lossy   bool
	acl     bool // an export has access control lists
	verf    atomic.Pointer[nfsclient.Verifier]
	dups    atomic.Pointer[dupCache]
	mounts  mountList
	locks   lockTable
	answers sync.Map // of GRANTED_MSG under way: cookie to chan nlm.Stat
	stats   counters
	gss     *rpcsecgss.Server // nil without Kerberos
	outer   transport.Handler // what transports call

	crashMu sync.RWMutex
	// replacing is held while the directory of an export is looked up and opened.
	replacing sync.Mutex

	ctx    context.Context // ends with Close; the owner of every listener's
	cancel context.CancelFunc

	// life is held while listeners are started and stopped, which waits for
	// calls under way: no call may wait for it.
	life sync.Mutex

	mu        sync.Mutex
	listeners []*listener
	closed    bool
	running   sync.WaitGroup // runCrash; not added to once closed
}

// New opens the exports. Nothing is listened to yet. The caller closes the
// server; one opened afterwards over the same directories serves the same
// handles.
func New(cfg Config) (*Server, error) {
	if cfg.MaxIO == 0 {
		cfg.MaxIO = defaultMaxIO
	}
	if cfg.MaxIO < minMaxIO || cfg.MaxIO > maxMaxIO {
		return nil, fmt.Errorf("nfsd: largest READ and WRITE of %d bytes: not within %d to %d", cfg.MaxIO, minMaxIO, maxMaxIO)
	}
	if cfg.Versions == 0 {
		cfg.Versions = V3
	}
	if cfg.Duplicates == 0 {
		cfg.Duplicates = 4096
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{cfg: cfg, byID: map[uint32]*export{}, again: map[uint32]*export{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.renew(true)
	s.outer = s.guarded(s.wrapped())
	if cfg.Callbacks != nil {
		s.locks.grant = s.granted
	}
	for _, x := range cfg.Exports {
		if err := s.add(x); err != nil {
			return nil, errors.Join(fmt.Errorf("nfsd: %w", err), s.Close())
		}
	}
	if len(s.exports) == 0 {
		return nil, errors.Join(errors.New("nfsd: nothing to export"), s.Close())
	}
	if cfg.Versions&(V41|V42) != 0 {
		s.openV4()
	}
	return s, nil
}

func (s *Server) add(x Export) error {
	x, err := x.normalize()
	if err != nil {
		return err
	}
	if old := s.byID[x.ID]; old != nil {
		return fmt.Errorf("exports %s and %s have the same id %#x", old.Path, x.Path, x.ID)
	}
	e, err := s.open(x)
	if err != nil {
		return err
	}
	s.exports = append(s.exports, e)
	s.byID[x.ID] = e
	s.lossy = s.lossy || x.Lossy
	s.acl = s.acl || x.ACL
	return nil
}

// renew changes the write verifier; anew forgets the replies as well.
func (s *Server) renew(anew bool) {
	var v nfsclient.Verifier
	// It never fails and never returns the same again.
	_, _ = rand.Read(v[:])
	s.verf.Store(&v)
	if anew {
		s.dups.Store(newDupCache(s.cfg.Duplicates))
	}
}

// Handler serves the calls that a transport has received.
func (s *Server) Handler() transport.Handler { return s.outer }

// wrapped is what carries out calls.
func (s *Server) wrapped() transport.Handler {
	if s.cfg.Wrap != nil {
		return s.cfg.Wrap((*handler)(s))
	}
	return (*handler)(s)
}

// Crash does what the crash and restart of the host would do, as far as clients
// can tell: unstable writes of lossy exports that were not committed are lost,
// the write verifier changes, the duplicate request cache is empty, locks, sessions, what
// was open and security contexts are forgotten, and every connection is lost. It returns when the listeners listen again at their
// addresses. A hook must return the action Crash instead of calling it.
func (s *Server) Crash() error {
	s.lose()
	return s.relisten()
}

func (s *Server) lose() {
	s.crashMu.Lock()
	defer s.crashMu.Unlock()
	s.renew(true)
	for _, e := range s.exports {
		e.all(func(e *export) { e.tree.Forget() })
	}
	s.locks.crash(s.cfg.Grace)
	if s.state != nil {
		s.state.Restart(s.cfg.Grace != 0)
	}
	s.ForgetContexts()
	s.stats.crashes.Add(1)
}

// ForgetContexts forgets all security contexts, as a server does that has too many of them. Calls with one are
// answered RPCSEC_GSS_CREDPROBLEM from now on.
func (s *Server) ForgetContexts() {
	if s.gss != nil {
		s.gss.Forget()
	}
}

// runCrash is Crash out of a call that is itself to be lost.
func (s *Server) runCrash(end chan<- struct{}) {
	defer s.running.Done()
	defer close(end)
	// What cannot listen again shows as a server that is down.
	_ = s.relisten()
}

// Close stops listening, ends every connection, waits for the calls under way
// and closes the exports. What lossy mode still holds is made durable.
func (s *Server) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.running.Wait()
	s.locks.close()
	if s.back != nil {
		s.back.Close()
	}
	s.life.Lock()
	defer s.life.Unlock()
	var errs []error
	for _, l := range s.all() {
		errs = append(errs, l.stop())
	}
	for _, e := range s.exports {
		e.all(func(e *export) { errs = append(errs, e.tree.Close()) })
	}
	return errors.Join(errs...)
}

// exportOf is the export that a handle belongs to.
func (s *Server) exportOf(h nfsclient.Handle) (*export, error) {
	id, ok := vfs.HandleID(string(h))
	if !ok {
		return nil, vfs.ErrBadHandle
	}
	e := s.byID[id]
	if e == nil {
		s.replacing.Lock()
		e = s.again[id]
		s.replacing.Unlock()
	}
	if e == nil {
		return nil, errStale
	}
	if e = e.latest(); e.ID != id {
		return nil, errStale
	}
	return e, nil
}
