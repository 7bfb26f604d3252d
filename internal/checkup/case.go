package checkup

import (
	"context"
	"net/netip"
	"strings"

	"github.com/rdmafs/rdmafs/fs"
	"github.com/rdmafs/rdmafs/fs/ring"
	"github.com/rdmafs/rdmafs/internal/doctor"
	"github.com/rdmafs/rdmafs/internal/mount"
	"github.com/rdmafs/rdmafs/internal/providers"
	"github.com/rdmafs/rdmafs/internal/session"
	"github.com/rdmafs/rdmafs/transport/rpcsecgss/krb5"
	"github.com/rdmafs/rdmafs/verbs/rdmadev"
)

// Case is the mount that cfg describes taken apart for the doctor. words are its
// options as given. Write and Trial are for the caller to set.
func Case(cfg session.Config, words string) *doctor.Case {
	cfg.Log = nil // the report says what there is to say
	posix, flock := cfg.Options.ServerLocks()
	version := uint32(3)
	switch {
	case len(cfg.Options.Versions()) > 1:
		version = 0
	case cfg.Options.Minors() != nil:
		version = 4
	}
	return &doctor.Case{
		Version: version,
		Target:  cfg.Source.Text, Host: cfg.Source.Host, Export: cfg.Source.Export, Words: words,
		Timeout: cfg.ConnectTimeout(),
		Cred:    session.OwnCred(),
		Locks:   posix || flock,
		Fuse:    func() error { return mount.Check(&cfg.Options) },
		Rings:   ring.Available, RingsChosen: cfg.Options.Over == fs.OverRing,
		Devices:   rdmadev.System(),
		Memory:    lockedMemory(&cfg),
		Libraries: doctor.FindLibrary,
		Providers: listProviders(&cfg),
		RDMA:      cfg.Options.Proto == "rdma",
		Resolve:   cfg.Source.Resolve,
		Route:     func(to netip.Addr) (rdmadev.Route, error) { return rdmadev.RouteTo(to, cfg.Options.SrcAddr) },
		Ways:      ways(cfg),
		Exports: func(ctx context.Context, at netip.Addr) ([]doctor.Export, error) {
			found, err := session.Exports(ctx, cfg, at)
			exports := make([]doctor.Export, len(found))
			for i, x := range found {
				exports[i] = doctor.Export(x)
			}
			return exports, err
		},
		Explain:  session.Explain,
		Kerberos: kerberos(&cfg),
	}
}

// kerberos looks at what a mount with Kerberos needs; nil for others.
func kerberos(cfg *session.Config) func(ctx context.Context) []doctor.Finding {
	if !strings.HasPrefix(cfg.Options.Sec, "krb5") {
		return nil
	}
	return func(ctx context.Context) []doctor.Finding {
		cf, err := session.Kerberos(ctx, cfg)
		if err != nil {
			return []doctor.Finding{{Name: "configuration", Err: err}}
		}
		found := krb5.NewClient(cf).Examine(ctx)
		all := make([]doctor.Finding, len(found))
		for i, f := range found {
			all[i] = doctor.Finding(f)
		}
		return all
	}
}

// listProviders are all that this build has.
func listProviders(cfg *session.Config) []doctor.Provider {
	var all []doctor.Provider
	for _, p := range providers.All {
		all = append(all, doctor.Provider{
			Name: p.Name, Devices: p.Devices, Chosen: p.Allowed(&cfg.Options),
			Needs: p.Needs, Missing: p.Missing,
		})
	}
	return all
}

// lockedMemory is what a mount makes of the limit on locked memory.
func lockedMemory(cfg *session.Config) doctor.Memory {
	limit := providers.LockLimit()
	room, err := providers.PlanMemory(limit, &cfg.Options)
	return doctor.Memory{Limit: limit, Note: room.Note, Err: err}
}

// Windows asks an RDMA device for its memory windows, for an inventory.
func Windows(device string) (doctor.Windows, error) {
	w, err := providers.InspectWindows(device)
	return doctor.Windows(w), err
}
