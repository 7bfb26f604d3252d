package state

import (
	"sync"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/transport"
)

// File names a file: its handle. All names of one file must have the same handle.
type File = nfsclient.Handle

// Config is what a Machine needs. The zero value is of use.
type Config struct {
	// Now is the time; nil means time.Now.
	Now func() time.Time
	// Boot distinguishes this start of the server from all others; the time in seconds
	// unless set.
	Boot uint32
	// Lease is how long a client may be silent, 90 seconds unless set. A delegation
	// that is recalled must be returned within it.
	Lease time.Duration
	// Grace is how long Restart(true) lets clients reclaim; Lease unless set.
	Grace time.Duration
	// Slots bounds the fore channel of a session, 64 unless set.
	Slots uint32
	// MaxMessage bounds requests and replies of the fore channel, 1 MiB + 4096 unless
	// set; MaxCached bounds what is kept of a reply, 4096 unless set. MaxOps bounds the
	// operations of a COMPOUND, 64 unless set.
	MaxMessage, MaxCached, MaxOps uint32
	// Owner is the server's owner and scope.
	Owner string
	// Delegations allows read and write delegations to be granted.
	Delegations bool
	// Callback, if not nil, is told what the server owes to a client. It must not
	// block. Without it no delegation is granted.
	Callback func(Callback)
	// Released, if not nil, is called when the last open, lock or delegation of a file
	// is gone. By the time it is called the file may be held anew: see Held.
	Released func(File)
	// Ended, if not nil, is called when a session is no more.
	Ended func(wire.SessionID)
}

func (cf *Config) setDefaults() {
	if cf.Now == nil {
		cf.Now = time.Now
	}
	if cf.Boot == 0 {
		cf.Boot = uint32(cf.Now().Unix())
	}
	if cf.Lease == 0 {
		cf.Lease = 90 * time.Second
	}
	if cf.Grace == 0 {
		cf.Grace = cf.Lease
	}
	if cf.Slots == 0 {
		cf.Slots = 64
	}
	if cf.MaxMessage == 0 {
		cf.MaxMessage = 1<<20 + 4096
	}
	if cf.MaxCached == 0 {
		cf.MaxCached = 4096
	}
	if cf.MaxOps == 0 {
		cf.MaxOps = 64
	}
	if cf.Owner == "" {
		cf.Owner = "rdmafs-nfsd"
	}
}

// Peer is who sent a call.
type Peer struct {
	// Principal names the user of the call, flavor included: "sys:1000" or "gss:name".
	Principal string
	// Conn is the connection; nil if callbacks cannot be sent over it. It must be
	// the same value for all calls of one connection.
	Conn transport.Backchannel
	// Minor is the minor version of the COMPOUND.
	Minor uint32
}

// Machine is the state of one server. All its methods may be called from any goroutine.
type Machine struct {
	cfg Config

	// changing is held for reading while something other than an open file's READ and WRITE changes a file, see Change.
	changing sync.RWMutex

	mu   sync.Mutex
	boot uint32
	last uint64 // number given out last; stateids, clients and sessions share the count
	now  time.Time

	clients  map[wire.ClientID]*client
	sessions map[wire.SessionID]*session
	holdings map[[12]byte]*holding
	files    map[File]*file

	// graceEnd is when the grace period ends; zero means that there is none.
	// reclaimers are the owners that may reclaim and have not said yet that they are
	// done.
	graceEnd   time.Time
	reclaimers map[string]bool
	// slots is how many a session may have.
	slots uint32

	// What leave must tell.
	owed     []Callback
	released []File
	ended    []wire.SessionID
}

// New makes a Machine without clients, and without a grace period.
func New(cfg Config) *Machine {
	cfg.setDefaults()
	m := &Machine{cfg: cfg, boot: cfg.Boot, slots: cfg.Slots}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget()
	return m
}

// forget forgets all clients. mu is held.
func (m *Machine) forget() {
	m.clients = map[wire.ClientID]*client{}
	for id := range m.sessions {
		m.ended = append(m.ended, id)
	}
	m.sessions = map[wire.SessionID]*session{}
	m.holdings = map[[12]byte]*holding{}
	for f := range m.files {
		m.released = append(m.released, f)
	}
	m.files = map[File]*file{}
}

// enter begins a method: it takes the lock, and does what time has brought about.
func (m *Machine) enter() {
	m.mu.Lock()
	m.now = m.cfg.Now()
	if !m.graceEnd.IsZero() && !m.now.Before(m.graceEnd) {
		m.endGrace()
	}
	for _, c := range m.clients {
		if c.calls == 0 && !m.now.Before(c.expires) {
			m.drop(c)
		}
	}
}

// leave ends a method. What it calls may call the Machine.
func (m *Machine) leave() {
	owed, released, ended := m.owed, m.released, m.ended
	m.owed, m.released, m.ended = nil, nil, nil
	m.mu.Unlock()
	if m.cfg.Callback != nil {
		for _, c := range owed {
			m.cfg.Callback(c)
		}
	}
	if m.cfg.Released != nil {
		for _, f := range released {
			m.cfg.Released(f)
		}
	}
	if m.cfg.Ended != nil {
		for _, id := range ended {
			m.cfg.Ended(id)
		}
	}
}

// Lease is the lease time, for the attribute.
func (m *Machine) Lease() time.Duration { return m.cfg.Lease }

// next is a number that was not given out before. mu is held.
func (m *Machine) next() uint64 {
	m.last++
	return m.last
}
