package session

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/rdmafs/rdmafs/internal/providers"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/callback"
)

// Connect reaches the server and mounts the export, over the first of its
// addresses and of the ways to it that answers. The error has what was tried
// and why each attempt failed.
//
// An export that takes no AUTH_SYS is mounted with the first flavor that the server names
// instead, unless the options have one.
func Connect(ctx context.Context, cfg Config) (*Session, error) {
	s, err := connect(ctx, cfg)
	if sec := offered(&cfg, err); sec != "" {
		cfg.log().Info(fmt.Sprintf("%s: the server wants sec=%s", cfg.Source.Text, sec))
		cfg.Options.Sec = sec
		s, err = connect(ctx, cfg)
	}
	return s, err
}

func connect(ctx context.Context, cfg Config) (*Session, error) {
	if err := cfg.prepare(ctx); err != nil {
		return nil, err
	}
	addrs, err := addresses(ctx, &cfg)
	if err != nil {
		return nil, err
	}
	if cfg.Options.Spread() {
		cfg.remotes = addrs
	}
	var failed, without []error
	for _, a := range addrs {
		s, none, err := connectAt(ctx, &cfg, netip.AddrPortFrom(a, cfg.Options.NFSPort()))
		for _, err := range none {
			if !slices.ContainsFunc(without, func(known error) bool { return known.Error() == err.Error() }) {
				without = append(without, err) // each address lacks the same
			}
		}
		var away *unreachableError
		if err != nil && errors.As(err, &away) && cfg.Options.Proto == "rdma" && cfg.Options.Port == 0 {
			if port, why := registeredPort(ctx, &cfg, a); port != 0 {
				cfg.log().Info(fmt.Sprintf("rpcbind on %s says that NFS over RDMA is on port %d", a, port))
				s, _, err = connectAt(ctx, &cfg, netip.AddrPortFrom(a, port))
			} else {
				err = errors.Join(err, why)
			}
		}
		if s != nil {
			for _, err := range append(without, failed...) {
				cfg.log().Info(fmt.Sprintf("not taken: %v", err))
			}
			return s, nil
		}
		if err != nil {
			failed = append(failed, err)
		}
	}
	err = errors.Join(failed...)
	var away *unreachableError
	if err != nil && !errors.As(err, &away) {
		return nil, err // the server was reached: another way to it would not have helped
	}
	return nil, errors.Join(append(failed, without...)...)
}

// addresses are those of the server that the options allow, in the order to try them.
func addresses(ctx context.Context, cfg *Config) ([]netip.Addr, error) {
	addrs := []netip.Addr{cfg.Options.Addr}
	switch {
	case len(cfg.Options.RemotePorts) > 0:
		addrs = slices.Clone(cfg.Options.RemotePorts)
	case !addrs[0].IsValid():
		var err error
		if addrs, err = cfg.Source.Resolve(ctx); err != nil {
			return nil, err
		}
	}
	if !cfg.Options.IPv6 {
		return addrs, nil
	}
	if addrs = slices.DeleteFunc(addrs, netip.Addr.Is4); len(addrs) == 0 {
		return nil, fmt.Errorf("%s has no IPv6 address, which proto=%s6 asks for", cfg.Source.Host, cfg.Options.Proto)
	}
	return addrs, nil
}

// Over is a session, not yet connected, over the first way to an address that the
// options allow.
func Over(ctx context.Context, cfg Config, server netip.Addr) (*Session, error) {
	if err := cfg.prepare(ctx); err != nil {
		return nil, err
	}
	addr := netip.AddrPortFrom(server, cfg.Options.NFSPort())
	rows, without := routes(ctx, &cfg, addr)
	if len(rows) == 0 {
		return nil, errors.Join(without...)
	}
	for k, row := range rows {
		for j, r := range row {
			if k+j > 0 {
				r.Close()
			}
		}
	}
	return newSession(&cfg, addr, rows[0][0]), nil
}

// routes are routes found in the time that a mount has.
func routes(ctx context.Context, cfg *Config, addr netip.AddrPort) (rows [][]*providers.Route, without []error) {
	ctx, cancel := context.WithTimeout(ctx, cfg.ConnectTimeout())
	defer cancel()
	to := providers.Server{Addr: addr, Host: cfg.Source.Host}
	if cfg.Options.Minors() != nil {
		cfg.callbacks = callback.New(callback.Config{Inline: cfg.Options.Inline})
		to.Callbacks = cfg.callbacks
	}
	rows, without = providers.Routes(ctx, &cfg.Options, to, cfg.log())
	for i, err := range without {
		if _, cure, ok := providers.Encryption(err); ok {
			without[i] = &connectError{"TLS", err, cure}
		}
	}
	return rows, without
}

// connectAt is Connect for one address, with the best version of NFS that the server has and the options
// allow. without is why there were no more ways to it; without any, there is neither a session nor an error.
func connectAt(ctx context.Context, cfg *Config, addr netip.AddrPort) (s *Session, without []error, err error) {
	var refused []error
	versions := cfg.Options.Versions()
	for i, vers := range versions {
		c := *cfg
		c.Options.Vers = vers
		s, without, err = connectWith(ctx, &c, addr)
		if len(versions) == 1 {
			return s, without, err
		}
		if err == nil && s != nil {
			cfg.log().Info(fmt.Sprintf("%s: NFS version %s is used, the highest that %s has for it", cfg.Source.Text, s.client.Info().Version, addr))
			return s, without, nil
		}
		if err == nil || i+1 == len(versions) {
			break
		}
		lacks, declines := refusesVersion4(err)
		if !lacks && !declines {
			break
		}
		cfg.log().Info(fmt.Sprintf("%s: not with NFS version %s: %v", cfg.Source.Text, vers, err))
		if declines {
			refused = append(refused, err) // if version 3 does not work, either, it may be what matters
		}
	}
	if IsNoExport(err) {
		// The error of version 3 lists what the server exports.
		refused = slices.DeleteFunc(refused, IsNoExport)
	}
	return nil, without, errors.Join(append(refused, err)...)
}

// connectWith is connectAt for one version.
func connectWith(ctx context.Context, cfg *Config, addr netip.AddrPort) (_ *Session, without []error, _ error) {
	rows, without := routes(ctx, cfg, addr)
	var failed []error
	for i, row := range rows {
		s, err := race(ctx, cfg, addr, row)
		if err == nil {
			err = s.MountExport(ctx)
		}
		if err != nil {
			if s != nil {
				s.closeTransport()
			}
			failed = append(failed, err)
			continue
		}
		for _, row := range rows[i+1:] {
			for _, unused := range row {
				unused.Close()
			}
		}
		return s, append(without, failed...), nil
	}
	return nil, without, errors.Join(failed...)
}

// unreachableError says that nothing answered at an address.
type unreachableError struct{ error }

func (e *unreachableError) Unwrap() error { return e.error }

// slowRouteGrace is how much longer a route may take to answer than another took
// to be refused: the host is there, and who listens answers soon.
const slowRouteGrace = 3 * time.Second

// race connects over all routes of a row at once. The first that answers is
// the session's; the others are closed.
func race(ctx context.Context, cfg *Config, addr netip.AddrPort, row []*providers.Route) (*Session, error) {
	ctx, cancel := context.WithTimeout(ctx, cfg.ConnectTimeout())
	defer cancel()
	type outcome struct {
		s   *Session
		err error
	}
	out := make(chan outcome, len(row))
	runConnect := func(s *Session) { out <- outcome{s, s.Connect(ctx)} }
	for _, r := range row {
		go runConnect(newSession(cfg, addr, r))
	}
	var won *Session
	var failed []error
	for range row {
		o := <-out
		switch {
		case o.err == nil && won == nil:
			won = o.s
			cancel()
			continue
		case o.err != nil && won == nil:
			failed = append(failed, o.err)
			if errors.Is(o.err, syscall.ECONNREFUSED) {
				defer time.AfterFunc(slowRouteGrace, cancel).Stop()
			}
		}
		o.s.closeTransport()
	}
	if won == nil {
		return nil, errors.Join(failed...)
	}
	return won, nil
}
