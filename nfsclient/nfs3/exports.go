package nfs3

import (
	"context"
	"log/slog"
	"net/netip"

	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
)

// Export is a directory that a server exports.
type Export struct {
	Path string
	// Groups are who may mount it, as the server puts it; none is everyone.
	Groups []string
}

// Exports lists what a server exports. Its strings are safe to print on a terminal. Of
// cf it uses what is needed to reach mountd. Errors are *MountError.
func Exports(ctx context.Context, cf Config) ([]Export, error) {
	if cf.Log == nil {
		cf.Log = slog.New(slog.DiscardHandler)
	}
	if err := cf.findMountd(ctx); err != nil {
		return nil, err
	}
	at := netip.AddrPortFrom(cf.Addr, cf.MountPort)
	c, err := cf.Dial(ctx, at)
	if err != nil {
		return nil, cf.mountdError(at, err)
	}
	defer cf.close(c)
	var res wire.ExportRes
	if err := call(ctx, c, wire.MountProgram, wire.MountVersion, wire.MountExport, cf.cred(),
		&wire.Void{}, &res, wire.MountListReplyMax); err != nil {
		return nil, cf.mountdError(at, err)
	}
	found := make([]Export, len(res.Exports))
	for i, e := range res.Exports {
		found[i].Path = printable(e.Path)
		for _, g := range e.Groups {
			found[i].Groups = append(found[i].Groups, printable(g))
		}
	}
	return found, nil
}
