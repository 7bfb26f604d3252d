package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/rdmafs/rdmafs/cmd/rdmafs/doctor"
	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/verbs/rdmadev"
)

const doctorHelp = `Find out why a mount does not work, or what it would be like: walk the whole chain
from /dev/fuse to a trial mount, and print a line a step:

  ok        as it should be
  warning   worth knowing; the mount works all the same
  failure   keeps the mount from succeeding; behind -> stands what to do about it
  skipped   not tried, and why

In the export it asks what you may do there, and moves data both ways through a file that
it makes and removes again where you may write (--no-write, or -o ro, leaves that out).
Give the arguments of "rdmafs mount" without the mount point. The last step mounts the
export on a temporary directory for a moment, in the very way that "rdmafs mount" takes.
With a server alone everything up to its answers is tried; without a server, this machine.

The exit code is 0 only if "rdmafs mount" with the same arguments would succeed. Nothing
takes longer than the mount itself would wait: timeo, at most 30 seconds, for each of the
server's addresses.`

const doctorExamples = `  rdmafs doctor                                      is this machine ready?
  rdmafs doctor server                               does the server answer, and by which ways?
  rdmafs doctor server:/export                       would "rdmafs mount server:/export DIR" work?
  rdmafs doctor server:/export -o proto=tcp          and over TCP?
  rdmafs doctor server:/export -o timeo=20 --json    2 s for each attempt, for programs`

func newDoctorCommand() *cobra.Command {
	var words []string
	var asJSON, noWrite bool
	cmd := &cobra.Command{
		Use:     "doctor [SERVER[:/EXPORT]] [-o OPTIONS]",
		Short:   "Find out why a mount does not work",
		Long:    doctorHelp,
		Example: doctorExamples,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return withCode(exitUsage, fmt.Errorf("doctor wants at most one SERVER:/EXPORT, and no mount point"))
			}
			m, err := doctorArgs(args, words)
			if err != nil {
				return withCode(exitUsage, err)
			}
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			out := cmd.OutOrStdout()
			show := func(s doctor.Section) { doctor.WriteSection(out, s) }
			if asJSON {
				show = func(doctor.Section) {}
			}
			c := m.examined(strings.Join(words, ","))
			c.Write = !noWrite && !m.opts.readOnly
			r := doctor.Examine(ctx, c, show)
			if asJSON {
				if err := doctor.WriteJSON(out, r); err != nil {
					return withCode(exitSystem, err)
				}
			} else if r.OK {
				doctor.WriteVerdict(out, r)
			}
			return withCode(exitFail, r.Err())
		},
	}
	cmd.Flags().StringArrayVarP(&words, "options", "o", nil, "mount options, as for rdmafs mount")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&noWrite, "no-write", false, "make no file in the export to try writing with")
	return cmd
}

// doctorArgs understands the arguments as mount does, but for what may be left
// away.
func doctorArgs(args, words []string) (*mountArgs, error) {
	opts, err := parseOptions(words)
	if err != nil {
		return nil, err
	}
	m := &mountArgs{opts: opts}
	if len(args) == 0 {
		return m, nil
	}
	m.src, err = parseServer(args[0])
	return m, err
}

// parseServer takes what parseSource does, and a server alone.
func parseServer(s string) (source, error) {
	host := s
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
		host = s[1 : len(s)-1]
	}
	if _, err := netip.ParseAddr(host); err == nil || !strings.ContainsAny(s, ":[]/") && s != "" {
		return source{text: s, host: host}, nil
	}
	return parseSource(s)
}

// examined is the mount taken apart for the doctor.
func (m *mountArgs) examined(words string) *doctor.Case {
	silent := slog.New(slog.DiscardHandler)
	machine := machineName()
	return &doctor.Case{
		Target: m.src.text, Host: m.src.host, Export: m.src.export, Words: words,
		Patience:  m.connectTimeout(),
		Cred:      ownCred(),
		Fuse:      func() error { return checkFuse(m.opts) },
		Devices:   rdmadev.System(),
		Memory:    m.lockedMemory(),
		Libraries: doctor.FindLibrary,
		Providers: m.providers(),
		RDMA:      m.opts.proto == "rdma",
		Resolve:   m.src.resolve,
		Route:     func(to netip.Addr) (rdmadev.Route, error) { return rdmadev.RouteTo(to, m.opts.srcAddr) },
		Ways:      m.ways(machine, silent),
		Exports: func(ctx context.Context, at netip.Addr) ([]doctor.Export, error) {
			found, err := nfs3.Exports(ctx, m.mountd(at, machine, silent))
			exports := make([]doctor.Export, len(found))
			for i, x := range found {
				exports[i] = doctor.Export(x)
			}
			return exports, err
		},
		Trial:   func(ctx context.Context) (string, error) { return m.trial(ctx, silent) },
		Explain: explain,
	}
}

// explain takes an error of the mount apart: what happened, and what may help.
func explain(err error) (what, remedy string) {
	var ce *connectError
	var me *nfs3.MountError
	switch {
	case errors.As(err, &ce):
		bare := *ce
		bare.hint = ""
		return bare.Error(), ce.hint
	case errors.As(err, &me):
		bare := *me
		bare.Hint = ""
		return bare.Error(), me.Hint
	}
	if what, remedy, ok := explainProvider(err); ok {
		return what, remedy
	}
	return oneLine(err), ""
}

// providers are all that this build has.
func (m *mountArgs) providers() []doctor.Provider {
	var all []doctor.Provider
	for _, p := range providers {
		all = append(all, doctor.Provider{
			Name: p.name, Devices: p.devices, Chosen: m.chosen(p.name),
			Needs: p.needs, Missing: p.missing,
		})
	}
	return all
}

// chosen tells whether the options let the mount use a provider.
func (m *mountArgs) chosen(provider string) bool {
	return m.opts.proto == "rdma" && (m.opts.rdma == "auto" || m.opts.rdma == provider)
}

// ways are the ways of the mount, each alone, and then those that other options
// would choose. NFS has different ports over RDMA and TCP, so that a port= for
// one is not the other's; but a server may have both on one.
func (m *mountArgs) ways(machine string, log *slog.Logger) []doctor.Way {
	var chosen, others []doctor.Way
	add := func(proto, provider string, port uint16, isChosen bool) {
		way := *m
		way.opts.proto, way.opts.port = proto, port
		words := "proto=" + proto
		if proto == "rdma" {
			way.opts.rdma = provider
			words += ",rdma=" + provider
		}
		if m.opts.port != 0 && m.opts.port != port {
			words += fmt.Sprintf(",port=%d", port)
		}
		w := doctor.Way{Name: proto, Port: port, Chosen: isChosen, Options: words,
			Open: func(ctx context.Context, at netip.Addr) (doctor.Contact, error) {
				return way.contact(ctx, at, machine, log)
			}}
		if provider != "" {
			w.Name += "/" + provider
		}
		if isChosen {
			chosen = append(chosen, w)
		} else {
			others = append(others, w)
		}
	}
	own := m.opts.nfsPort()
	for _, p := range providers {
		port := own
		if m.opts.proto != "rdma" {
			port = portRDMA
		}
		add("rdma", p.name, port, m.chosen(p.name))
	}
	if m.opts.proto == "tcp" {
		add("tcp", "", own, true)
	} else {
		if own != portRDMA && own != portNFS {
			add("tcp", "", own, false)
		}
		add("tcp", "", portNFS, false)
	}
	return append(chosen, others...)
}

// contact opens the one way that m's options leave.
func (m *mountArgs) contact(ctx context.Context, at netip.Addr, machine string, log *slog.Logger) (doctor.Contact, error) {
	addr := netip.AddrPortFrom(at, m.opts.port)
	ways, without := m.routes(ctx, addr, machine, log)
	if len(ways) == 0 {
		return nil, errors.Join(without...)
	}
	return &contact{m, newSession(m, addr, ways[0][0], log), machine, log}, nil
}

// contact is a session that is looked at instead of used.
type contact struct {
	m       *mountArgs
	s       *session
	machine string
	log     *slog.Logger
}

func (c *contact) Connect(ctx context.Context) (transport.Link, error) {
	l, err := c.s.route.dialer.Dial(ctx)
	if err != nil {
		return nil, c.s.explainConnect(err)
	}
	return l, nil
}

func (c *contact) Terms(l transport.Link) *doctor.Terms { return terms(l) }

func (c *contact) Versions(ctx context.Context) (low, high uint32, err error) {
	return c.s.route.versions(ctx)
}

func (c *contact) Mount(ctx context.Context) (string, error) {
	if err := c.s.connect(ctx, c.m); err != nil {
		return "", err
	}
	if err := c.s.mount(ctx, c.m, c.machine, c.log); err != nil {
		return "", err
	}
	i := c.s.client.Info()
	return fmt.Sprintf("NFS version %s, rsize %d, wsize %d", i.Version, i.ReadMax, i.WriteMax), nil
}

func (c *contact) Client() nfsclient.Client { return c.s.client }

func (c *contact) LoweredMTU() int { return c.s.route.loweredMTU(c.s.addr.Addr()) }

func (c *contact) Close() { _ = c.s.close(context.Background(), c.log) }

// trial mounts on a temporary directory, and unmounts.
func (m *mountArgs) trial(ctx context.Context, log *slog.Logger) (how string, err error) {
	dir, err := os.MkdirTemp("", "rdmafs-doctor.")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.Remove(dir)) }()
	on := *m
	on.dir = dir
	l, err := on.begin(ctx, log)
	if err != nil {
		return "", err
	}
	how = fmt.Sprintf("%s to %s, NFS version %s", l.session.how, l.session.addr, l.session.client.Info().Version)
	defer l.control.finish(nil)
	if err := unmountOwn(l.fs); err != nil {
		return "", fmt.Errorf("the mount works, but %s cannot be unmounted again: %w", dir, err)
	}
	l.fs.Wait()
	return how, l.session.close(context.Background(), log)
}

// lockedMemory is what a mount makes of the limit on locked memory.
func (m *mountArgs) lockedMemory() doctor.Memory {
	limit := lockLimit()
	room, err := planMemory(limit, &m.opts)
	return doctor.Memory{Limit: limit, Note: room.note, Err: err}
}
