package session

import (
	"context"
	"errors"

	"github.com/rdmafs/rdmafs/nfsclient/nfs3"
)

// ExportPaths lists the paths that the server of cfg exports, from the first of its
// addresses that says so.
func ExportPaths(ctx context.Context, cfg Config) ([]string, error) {
	addrs, err := cfg.Source.Resolve(ctx)
	if err != nil {
		return nil, err
	}
	var failed []error
	for _, a := range addrs {
		found, err := Exports(ctx, cfg, a)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		paths := make([]string, len(found))
		for k, e := range found {
			paths[k] = e.Path
		}
		return paths, nil
	}
	return nil, errors.Join(failed...)
}

// IsNoExport reports whether opening failed because the server does not let this client
// mount that path: one that is shorter may be an export.
func IsNoExport(err error) bool {
	var me *nfs3.MountError
	return errors.As(err, &me) && (me.Failure == nfs3.NoExport || me.Failure == nfs3.NotPermitted)
}
