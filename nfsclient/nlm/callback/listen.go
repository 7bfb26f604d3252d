package callback

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"

	rpcbindwire "github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/nfsclient/nlm/wire"
	"github.com/rdmafs/rdmafs/nfsclient/rpcbind"
)

// Config says whose calls are heard.
type Config struct {
	// Server is the only address whose calls are heard.
	Server netip.Addr
	// Rpcbind is this host's rpcbind: the path of its socket, or its address.
	Rpcbind string
	Handler Handler
	// Note is the path of a file in a directory of this user alone, in which registrations are
	// noted, so that those of a process that was killed can be dropped; "" for none.
	Note string
	// Log may be nil.
	Log *slog.Logger
}

// ErrTaken: somebody else on this host has registered NLM.
var ErrTaken = errors.New("somebody else on this host serves the callbacks of lock managers (program 100021 at rpcbind)")

// ErrRefused: rpcbind does not let this user register.
var ErrRefused = errors.New("rpcbind refuses the registration")

// Listener hears calls from one server. Its methods may be called from any goroutine.
type Listener struct {
	cfg    Config
	tcp    net.Listener
	udp    *net.UDPConn
	cancel context.CancelFunc
	joined sync.WaitGroup
	note   *note // nil without Config.Note

	mu   sync.Mutex
	mine []rpcbindwire.Rpcb // as registered
}

// Listen registers and serves until Close. It fails with ErrTaken or ErrRefused, or
// because there is no rpcbind; ctx bounds the registration.
func Listen(ctx context.Context, cfg Config) (*Listener, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Server = cfg.Server.Unmap().WithZone("")
	l := &Listener{cfg: cfg}
	if cfg.Note != "" {
		var err error
		if l.note, err = openNote(cfg.Note); err != nil {
			return nil, err
		}
	}
	if err := l.open(ctx); err != nil {
		return nil, errors.Join(err, l.note.close())
	}
	// Whoever finds the registration finds somebody who listens: connections wait for
	// Accept, and datagrams in the socket.
	if err := l.register(ctx); err != nil {
		return nil, errors.Join(err, l.tcp.Close(), l.udp.Close(), l.note.close())
	}
	serving, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	l.joined.Go(func() { l.runTCP(serving) })
	l.joined.Go(func() { l.runUDP(serving) })
	return l, nil
}

// open binds the two ports, of the server's address family.
func (l *Listener) open(ctx context.Context) error {
	tcp, udp := l.netIDs()
	at := netip.AddrPortFrom(l.any(), 0).String()
	var lc net.ListenConfig
	var err error
	if l.tcp, err = lc.Listen(ctx, tcp, at); err != nil {
		return err
	}
	packets, err := lc.ListenPacket(ctx, udp, at)
	if err != nil {
		return errors.Join(err, l.tcp.Close())
	}
	l.udp = packets.(*net.UDPConn)
	return nil
}

// netIDs are Go's names of the transports; rpcbind's have no 4.
func (l *Listener) netIDs() (tcp, udp string) {
	if l.cfg.Server.Is4() {
		return "tcp4", "udp4"
	}
	return "tcp6", "udp6"
}

func (l *Listener) any() netip.Addr {
	if l.cfg.Server.Is4() {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

// entries are the registrations of a program.
func (l *Listener) entries(prog, vers uint32) (all []rpcbindwire.Rpcb) {
	owner := "superuser"
	if id := os.Geteuid(); id != 0 {
		owner = fmt.Sprint(id)
	}
	for netid, at := range map[string]net.Addr{"tcp": l.tcp.Addr(), "udp": l.udp.LocalAddr()} {
		if !l.cfg.Server.Is4() {
			netid += "6"
		}
		port := netip.MustParseAddrPort(at.String()).Port()
		all = append(all, rpcbindwire.Rpcb{Program: prog, Version: vers, NetID: netid, Owner: owner,
			Addr: rpcbind.UniversalAddr(netip.AddrPortFrom(l.any(), port))})
	}
	return all
}

// register registers NLM, and NSM if nobody has. Any registration of a program,
// of whatever version and transport, makes it another's.
func (l *Listener) register(ctx context.Context) error {
	return rpcbind.Do(ctx, l.cfg.Rpcbind, func(c *rpcbind.Conn) error {
		there, err := c.List()
		if err != nil {
			return err
		}
		if l.note != nil {
			if there, err = l.note.sweep(c, there); err != nil {
				return err
			}
			both := append(l.entries(wire.Program, wire.Version), l.entries(wire.NSMProgram, wire.NSMVersion)...)
			if err := l.note.write(both); err != nil {
				return err
			}
		}
		taken := func(prog uint32) bool {
			return slices.ContainsFunc(there, func(e rpcbindwire.Rpcb) bool { return e.Program == prog })
		}
		if taken(wire.Program) {
			return ErrTaken
		}
		if err := l.set(c, l.entries(wire.Program, wire.Version)); err != nil || taken(wire.NSMProgram) {
			return err
		}
		if err := l.set(c, l.entries(wire.NSMProgram, wire.NSMVersion)); err != nil {
			l.cfg.Log.Info(fmt.Sprintf("restarts of the server are not heard of by NSM: %v", err))
		}
		return nil
	})
}

// set makes all of the registrations, or none.
func (l *Listener) set(c *rpcbind.Conn, all []rpcbindwire.Rpcb) error {
	for n, e := range all {
		ok, err := c.Set(e)
		if err == nil && !ok {
			err = ErrRefused
		}
		if err != nil {
			for _, made := range all[:n] {
				_, _ = c.Unset(made) // the error is that of Set
			}
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mine = append(l.mine, all...)
	return nil
}

// Registered reports whether servers still find this Listener: the kernel's lockd takes
// the program when it starts.
func (l *Listener) Registered(ctx context.Context) (bool, error) {
	found := 0
	err := rpcbind.Do(ctx, l.cfg.Rpcbind, func(c *rpcbind.Conn) error {
		there, err := c.List()
		for _, e := range there {
			if e.Program == wire.Program && l.made(e) {
				found++
			}
		}
		return err
	})
	return found == 2, err
}

// made reports whether a registration is this Listener's.
func (l *Listener) made(e rpcbindwire.Rpcb) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.mine, func(o rpcbindwire.Rpcb) bool { return same(o, e) })
}

// Monitors reports whether restarts of the server are heard of by NSM.
func (l *Listener) Monitors() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.mine, func(e rpcbindwire.Rpcb) bool { return e.Program == wire.NSMProgram })
}

// unregister removes what is still this Listener's of a program, or of all if prog is
// 0.
func (l *Listener) unregister(ctx context.Context, prog uint32) error {
	err := rpcbind.Do(ctx, l.cfg.Rpcbind, func(c *rpcbind.Conn) error {
		there, err := c.List()
		for _, e := range there {
			if (prog == 0 || e.Program == prog) && l.made(e) {
				_, failed := c.Unset(e)
				err = errors.Join(err, failed)
			}
		}
		return err
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mine = slices.DeleteFunc(l.mine, func(e rpcbindwire.Rpcb) bool { return prog == 0 || e.Program == prog })
	return err
}

// Close unregisters and stops. What cannot be unregistered is an error; the ports are
// closed in any case.
func (l *Listener) Close(ctx context.Context) error {
	err := l.unregister(ctx, 0)
	l.cancel()
	l.joined.Wait()
	return errors.Join(err, l.note.close())
}
