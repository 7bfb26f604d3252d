package main

import (
	"fmt"
	"net"

	"github.com/rdmafs/rdmafs/internal/metrics"
	"github.com/rdmafs/rdmafs/internal/options"
	"github.com/rdmafs/rdmafs/internal/serve"
)

// shown is what a daemon serves by HTTP of its mount and itself: metrics=, pprof=.
type shown struct {
	metrics, profiles net.Listener // nil without
	servers           []*metrics.Server
}

// listenFor listens where the options say, before the mount is made: an address that cannot be had fails it.
func listenFor(o *options.Options) (s *shown, err error) {
	s = new(shown)
	if o.Metrics != "" {
		if s.metrics, err = metrics.Listen(o.Metrics); err != nil {
			return nil, fmt.Errorf("metrics=: %w", err)
		}
	}
	if o.PProf != "" {
		if s.profiles, err = metrics.Listen(o.PProf); err != nil {
			s.close()
			return nil, fmt.Errorf("pprof=: %w", err)
		}
	}
	return s, nil
}

// serve begins to answer.
func (s *shown) serve(m *serve.Mount) {
	if s.metrics != nil {
		s.servers = append(s.servers, metrics.Serve(s.metrics, metrics.Handler(func() ([]metrics.Mount, error) {
			r := m.Report()
			return []metrics.Mount{{Source: r.Source, MountPoint: r.MountPoint, Report: &r}}, nil
		})))
	}
	if s.profiles != nil {
		s.servers = append(s.servers, metrics.Serve(s.profiles, metrics.Profiles()))
	}
}

// close ends both.
func (s *shown) close() {
	for _, server := range s.servers {
		server.Close()
	}
	for _, ln := range []net.Listener{s.metrics, s.profiles} {
		if ln != nil {
			ln.Close()
		}
	}
}
