package nfs3

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/transport"
)

// umountTimeout bounds UMNT, which only tidies the server's list of mounts.
const umountTimeout = 3 * time.Second

// Mount mounts an export. ctx bounds it. Errors are *MountError.
func Mount(ctx context.Context, cf Config) (*Client, error) {
	if cf.Log == nil {
		cf.Log = slog.New(slog.DiscardHandler)
	}
	if cf.Export == "" || len(cf.Export) > wire.MaxMountPath {
		return nil, cf.fail(BadConfig, "the export's path is empty or too long", "name it as server:/path", nil)
	}
	cf.askPort = cf.MountPort == 0
	if err := cf.findMountd(ctx); err != nil {
		return nil, err
	}
	root, err := cf.mnt(ctx)
	if err != nil {
		return nil, err
	}
	c, err := newClient(ctx, cf, root)
	if err != nil {
		cf.umount(ctx)
		return nil, err
	}
	return c, nil
}

// findMountd sets MountPort.
func (cf *Config) findMountd(ctx context.Context) (err error) {
	if cf.MountPort == 0 {
		cf.MountPort, err = cf.mountdPort(ctx)
	}
	return err
}

func (cf *Config) fail(f Failure, why, hint string, err error) error {
	return &MountError{Failure: f, Host: cf.Host, Export: cf.Export, Why: why, Hint: hint, Err: err}
}

func (cf *Config) close(c transport.Caller) {
	if err := c.Close(); err != nil {
		cf.Log.Info(fmt.Sprintf("%s: closing a connection to rpcbind or mountd: %v", cf.Host, err))
	}
}

// cred is the credential of calls to mountd.
func (cf *Config) cred() transport.Cred {
	sys := cf.sys(cf.Cred)
	return &sys
}

// mnt asks mountd for the export's handle.
func (cf *Config) mnt(ctx context.Context) (nfsclient.Handle, error) {
	at := netip.AddrPortFrom(cf.Addr, cf.MountPort)
	c, err := cf.Dial(ctx, at)
	if err != nil {
		return "", cf.mountdError(at, err)
	}
	defer cf.close(c)
	var res wire.MntRes
	if err := call(ctx, c, wire.MountProgram, wire.MountVersion, wire.MountMnt, cf.cred(),
		&wire.PathArgs{Path: cf.Export}, &res, wire.MountMntReplyMax); err != nil {
		return "", cf.mountdError(at, err)
	}
	switch {
	case res.Status != wire.MountOK:
		return "", cf.refused(ctx, c, res.Status)
	case res.Handle == "":
		return "", cf.fail(NFSFailed, "server gave an empty file handle", "", transport.ErrProtocol)
	case len(res.Flavors) > 0 && !cf.taken(res.Flavors):
		cf.umount(ctx)
		return "", NoFlavorError(cf.Host, cf.Export, res.Flavors)
	}
	return res.Handle, nil
}

func (cf *Config) mountdError(at netip.AddrPort, err error) error {
	var r *transport.RPCError
	switch {
	case errors.As(err, &r) && r.Denied:
		return cf.fail(NotPermitted, fmt.Sprintf("mountd on %s denied the request", at), "", err)
	case errors.As(err, &r):
		return cf.fail(MountdMissing, fmt.Sprintf("what listens on %s is no mountd of version 3", at), "check -o mountport=", err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return cf.fail(MountdUnreachable, fmt.Sprintf("mountd on %s refused the connection", at), "check -o mountport= and that mountd runs", err)
	}
	return cf.fail(MountdUnreachable, fmt.Sprintf("mountd on %s does not answer", at), "", err)
}

// refused explains a status of MNT, and lists what the server does export.
func (cf *Config) refused(ctx context.Context, c transport.Caller, s wire.MountStatus) error {
	hint := cf.exports(ctx, c)
	switch s {
	case wire.MountErrNoEnt, wire.MountErrNotDir:
		return cf.fail(NoExport, "server has no such export: "+s.String(), hint, nil)
	case wire.MountErrPerm, wire.MountErrAccess:
		// Some servers answer this for paths that are not exported, too.
		if os.Geteuid() != 0 {
			hint += "; without root the export needs the option insecure"
		}
		return cf.fail(NotPermitted, "server does not let this client mount it: "+s.String(), hint, nil)
	}
	return cf.fail(NoExport, "server refused to mount it: "+s.String(), hint, nil)
}

// exports lists what the server exports, as a hint.
func (cf *Config) exports(ctx context.Context, c transport.Caller) string {
	var res wire.ExportRes
	if err := call(ctx, c, wire.MountProgram, wire.MountVersion, wire.MountExport, cf.cred(),
		&wire.Void{}, &res, wire.MountListReplyMax); err != nil {
		return "server does not tell its exports"
	}
	if len(res.Exports) == 0 {
		return "server exports nothing"
	}
	const most = 8
	var paths []string
	for i, e := range res.Exports {
		if i == most {
			paths = append(paths, fmt.Sprintf("and %d more", len(res.Exports)-most))
			break
		}
		paths = append(paths, printable(e.Path))
	}
	return "server exports: " + strings.Join(paths, ", ")
}

// printable removes what could control a terminal from a server's text.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == 0xfffd || r >= 0x80 && r < 0xa0 {
			return '?'
		}
		return r
	}, s)
}

// taken reports whether an export with these flavors takes the calls' own. Calls of AUTH_SYS
// will do where none is asked for.
func (cf *Config) taken(flavors []uint32) bool {
	if cf.Flavor != 0 && cf.Flavor != wire.AuthSys {
		return slices.Contains(flavors, cf.Flavor)
	}
	return slices.Contains(flavors, wire.AuthSys) || slices.Contains(flavors, wire.AuthNone)
}

// NoFlavorError is the error of an export that can be used with these flavors alone, of
// which the mount's is none.
func NoFlavorError(host, export string, flavors []uint32) *MountError {
	e := &MountError{Failure: NoFlavor, Host: host, Export: export, Flavors: flavors, Why: "the export demands another security (sec=)"}
	if len(flavors) > 0 {
		e.Why = "the export demands security of flavor " + FlavorNames(flavors)
		e.Hint = "mount it with sec=" + FlavorNames(flavors[:1])
		if !slices.Contains(knownFlavors, flavors[0]) {
			e.Hint = "export it with sec=sys or sec=krb5"
		}
	}
	return e
}

var knownFlavors = []uint32{wire.AuthSys, 390003, 390004, 390005}

// FlavorNames are those of RFC 5531 section 8.2 and RFC 2623 section 2.2.1.
func FlavorNames(flavors []uint32) string {
	names := make([]string, len(flavors))
	for i, f := range flavors {
		switch f {
		case wire.AuthSys:
			names[i] = "sys"
		case 390003:
			names[i] = "krb5"
		case 390004:
			names[i] = "krb5i"
		case 390005:
			names[i] = "krb5p"
		default:
			names[i] = fmt.Sprint(f)
		}
	}
	return strings.Join(names, ", ")
}

// umount tells mountd that the export is no longer mounted. Nothing depends
// on it.
func (cf *Config) umount(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), umountTimeout)
	defer cancel()
	c, err := cf.Dial(ctx, netip.AddrPortFrom(cf.Addr, cf.MountPort))
	if err == nil {
		defer cf.close(c)
		err = call(ctx, c, wire.MountProgram, wire.MountVersion, wire.MountUmnt, cf.cred(),
			&wire.PathArgs{Path: cf.Export}, &wire.Void{}, wire.NullReplyMax)
	}
	if err != nil {
		cf.Log.Info(fmt.Sprintf("%s:%s: server was not told of the unmount: %v", cf.Host, cf.Export, err))
	}
}
