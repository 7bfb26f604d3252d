package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/verbs/rdmadev"
	"github.com/rdmafs/rdmafs/verbs/rdmadev/rdmadevtest"
)

var (
	errRefused = errors.New("refused")
	server     = netip.MustParseAddr("10.99.0.2")
	standby    = netip.MustParseAddr("10.99.0.3")
)

// fakeWay is a way that fails where a test wants it to, and counts what is open.
type fakeWay struct {
	open, connect, call, versions, mount error
	dead                                 netip.Addr // refuses
	terms                                *Terms
	opened, links                        int
	connected                            netip.Addr
	export                               *fakeExport
	lowered                              int
	version                              uint32
	compounds                            []Compound // that Mount makes
	encryption                           *Encryption
}

func (w *fakeWay) way(name string, chosen bool) Way {
	return Way{Name: name, Port: 20049, Chosen: chosen, Options: "proto=" + name, Open: func(_ context.Context, at netip.Addr) (Contact, error) {
		if w.open != nil {
			return nil, w.open
		}
		w.opened++
		return &fakeContact{w, at}, nil
	}}
}

type fakeContact struct {
	w  *fakeWay
	at netip.Addr
}

func (c *fakeContact) Connect(ctx context.Context) (transport.Link, error) {
	if c.w.connect != nil {
		return nil, c.w.connect
	}
	if c.at == c.w.dead {
		return nil, errRefused
	}
	c.w.links++
	c.w.connected = c.at
	return &fakeLink{w: c.w}, nil
}

func (c *fakeContact) Terms(transport.Link) *Terms { return c.w.terms }

func (c *fakeContact) Encryption() *Encryption { return c.w.encryption }

func (c *fakeContact) Versions(context.Context) (uint32, uint32, error) { return 1, 2, c.w.versions }

func (c *fakeContact) Mount(context.Context) (string, error) {
	if c.w.links != 0 {
		return "", errors.New("a link is still open")
	}
	return "NFS version 3", c.w.mount
}

func (c *fakeContact) Compounds() []Compound { return c.w.compounds }

func (c *fakeContact) Client() nfsclient.Client { return c.w.export }

func (c *fakeContact) LoweredMTU() int { return c.w.lowered }

func (c *fakeContact) Close() { c.w.opened-- }

type fakeLink struct {
	transport.Link
	w *fakeWay
}

func (l *fakeLink) Exchange(_ context.Context, _ uint32, c *transport.Call) error {
	if c.Prog != 100003 || c.Vers != max(l.w.version, 3) || c.Proc != 0 {
		return fmt.Errorf("a call of program %d, procedure %d", c.Prog, c.Proc)
	}
	return l.w.call
}

func (l *fakeLink) Close() error {
	l.w.links--
	return nil
}

// rig is a Case in which everything is well, over ways of its own.
type rig struct {
	Case
	rdma, soft, tcp fakeWay
	trials          int
	trial           error
}

// newRig has a provider for devices, one for software and TCP.
func newRig(t *testing.T, trees ...map[string]string) *rig {
	t.Helper()
	root := t.TempDir()
	rdmadevtest.Plant(t, root, map[string]string{"sys/class/net/": "", "dev/null": ""})
	for _, files := range trees {
		rdmadevtest.Plant(t, root, files)
	}
	r := &rig{rdma: fakeWay{terms: &Terms{Told: true, SendInline: 4096, RecvInline: 4096, Asked: 128, Granted: 64}}}
	for _, w := range []*fakeWay{&r.rdma, &r.soft, &r.tcp} {
		w.export = newFakeExport()
	}
	nothing := func() error { return nil }
	r.Case = Case{
		Target: "server:/export", Host: "server", Export: "/export", Words: "soft", Version: 3, Timeout: time.Minute, Write: true, Locks: true, Cred: nfsclient.Cred{UID: 1000},
		Fuse:      nothing,
		Rings:     nothing,
		Devices:   &rdmadev.Tree{Sys: filepath.Join(root, "sys"), Dev: filepath.Join(root, "dev"), Map: rdmadevtest.Map{}},
		Memory:    Memory{Limit: NoLimit},
		Libraries: func(name string) string { return "/lib/" + name },
		Providers: []Provider{{Name: "hard", Devices: true, Chosen: true, Needs: "a device", Missing: nothing}, {Name: "soft", Chosen: true, Needs: "air", Missing: nothing}},
		RDMA:      true,
		Resolve:   func(context.Context) ([]netip.Addr, error) { return []netip.Addr{server, standby}, nil },
		Route: func(to netip.Addr) (rdmadev.Route, error) {
			return rdmadev.Route{Netdev: "eth0", Source: server, MTU: 1500}, nil
		},
		Exports: func(context.Context, netip.Addr) ([]Export, error) {
			return []Export{{Path: "/export"}, {Path: "/home", Groups: []string{"10.0.0.0/8"}}}, nil
		},
		Trial: func(context.Context) (string, error) {
			r.trials++
			if n := r.rdma.opened + r.soft.opened + r.tcp.opened; n != 0 {
				return "", fmt.Errorf("%d contacts are open while the trial runs", n)
			}
			return "over rdma", r.trial
		},
		Explain: func(err error) (string, string) {
			what, remedy, _ := strings.Cut(err.Error(), "; ")
			return what, remedy
		},
	}
	r.Ways = []Way{r.rdma.way("rdma/hard", true), r.soft.way("rdma/soft", true), r.tcp.way("tcp", false)}
	return r
}

// examine runs the case and checks what holds for all of them.
func (r *rig) examine(t *testing.T) *Report {
	t.Helper()
	var shown []Section
	report := Examine(t.Context(), &r.Case, func(s Section) { shown = append(shown, s) })
	if len(shown) != len(report.Sections) {
		t.Errorf("%d sections shown, %d reported", len(shown), len(report.Sections))
	}
	for _, w := range []*fakeWay{&r.rdma, &r.soft, &r.tcp} {
		if n := len(w.export.made); n > 0 || w.export.arenas > 0 {
			t.Errorf("%d files and %d arenas left", n, w.export.arenas)
		}
		if w.opened != 0 || w.links != 0 {
			t.Errorf("%d contacts and %d links left open", w.opened, w.links)
		}
	}
	failed := false
	for _, s := range report.Sections {
		for _, st := range s.Steps {
			failed = failed || st.Status == Failure
			if st.Name == "" || st.Detail == "" {
				t.Errorf("a step says nothing: %+v", st)
			}
			if st.Status == Skipped && st.Remedy != "" {
				t.Errorf("a remedy for what was not tried: %+v", st)
			}
		}
	}
	if report.OK == failed || report.OK != (report.Err() == nil) || report.Verdict == "" {
		t.Errorf("ok %v, failures %v, verdict %q", report.OK, failed, report.Verdict)
	}
	return report
}

// lines are the steps of a report, "section|name|status".
func lines(r *Report) []string {
	var all []string
	for _, s := range r.Sections {
		for _, st := range s.Steps {
			all = append(all, s.Title+"|"+st.Name+"|"+string(st.Status))
		}
	}
	return all
}

// find is the one step of a name in a section.
func find(t *testing.T, r *Report, section, name string) Step {
	t.Helper()
	for _, s := range r.Sections {
		for _, st := range s.Steps {
			if s.Title == section && st.Name == name {
				return st
			}
		}
	}
	t.Fatalf("no step %q in section %q of %q", name, section, lines(r))
	return Step{}
}
