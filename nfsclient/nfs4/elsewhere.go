package nfs4

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

// maxPlaces bounds the places, and the flavors, of which a message tells.
const maxPlaces = 8

// maxTold bounds the names of which the log has told that they lead elsewhere.
const maxTold = 64

// elsewhere remembers what the log has been told of.
type elsewhere struct {
	mu   sync.Mutex
	told map[string]struct{}
}

// at is the operations that lead to a name in a directory; the root of the server without a directory, and the
// directory itself without a name.
func at(dir nfsclient.Handle, name string) (ops []wire.Operation) {
	if dir == "" {
		ops = append(ops, &wire.PutRootFH{})
	} else {
		ops = append(ops, &wire.PutFH{Handle: dir})
	}
	if name != "" {
		ops = append(ops, &wire.Lookup{Name: name})
	}
	return ops
}

// whereTo says where the file system has moved that begins at a name (NFS4ERR_MOVED); empty if the server does not.
func (c *Client) whereTo(ctx context.Context, cr nfsclient.Cred, dir nfsclient.Handle, name string) string {
	ops := at(dir, name)
	g := &wire.GetAttr{Want: wire.BitmapOf(wire.AttrFSLocations)}
	q := &request{op: "GETATTR", at: len(ops), impatient: true}
	q.Ops = append(ops, g)
	if c.do(ctx, cr, q) != nil || !g.Attrs.Has(wire.AttrFSLocations) {
		return ""
	}
	var places []string
	for _, l := range g.Attrs.FSLocations.Locations {
		for _, s := range l.Servers {
			if s != "" && len(places) < maxPlaces {
				places = append(places, printable(s)+":/"+printable(strings.Join(l.Root, "/")))
			}
		}
	}
	return strings.Join(places, " or ")
}

// printable is what a server has said, without what would confuse a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

// oidKrb5 is the OID of Kerberos (RFC 1964) as DER encodes its content; servers put tag and length before it, or not.
const oidKrb5 = "\x2a\x86\x48\x86\xf7\x12\x01\x02\x02"

// pseudoFlavor is the number that MOUNT has for a flavor of SECINFO (RFC 2623 section 2.2.1).
func pseudoFlavor(f *wire.Flavor) uint32 {
	if f.Flavor == wire.RPCSecGSS && (f.OID == oidKrb5 || f.OID == "\x06\x09"+oidKrb5) && f.Service >= 1 && f.Service <= 3 {
		return 390002 + f.Service
	}
	return f.Flavor
}

// flavors is what security a name demands (NFS4ERR_WRONGSEC), preferred ones first; none if the server does not say.
func (c *Client) flavors(ctx context.Context, cr nfsclient.Cred, dir nfsclient.Handle, name string) (all []uint32) {
	ops := at(dir, "")
	var list *[]wire.Flavor
	if name == "" {
		o := &wire.SecInfoNoName{}
		ops, list = append(ops, o), &o.Flavors
	} else {
		o := &wire.SecInfo{Name: name}
		ops, list = append(ops, o), &o.Flavors
	}
	q := &request{op: "SECINFO", at: 1, impatient: true}
	q.Ops = ops
	if c.do(ctx, cr, q) != nil {
		return nil
	}
	for i := range *list {
		if f := pseudoFlavor(&(*list)[i]); !slices.Contains(all, f) && len(all) < maxPlaces {
			all = append(all, f)
		}
	}
	return all
}

// led says where a name leads for which the server has answered MOVED or WRONGSEC, and what to do: why and hint.
func (c *Client) led(ctx context.Context, cr nfsclient.Cred, dir nfsclient.Handle, name, path string, st wire.Status) (why, hint string) {
	if st == wire.ErrMoved {
		if to := c.whereTo(ctx, cr, dir, name); to != "" {
			return fmt.Sprintf("%s has moved to %s", path, to), "mount it from there: file systems are not followed to other servers"
		}
		return path + " has moved to another server", "ask its administrator where it is, and mount it there"
	}
	e := c.demands(path, c.flavors(ctx, cr, dir, name))
	return e.Why, e.Hint
}

// demands is the error of a path that takes calls of these flavors alone, and has refused the mount's.
func (c *Client) demands(path string, all []uint32) *MountError {
	e := nfs3.NoFlavorError(c.cf.Host, c.cf.Export, all)
	switch {
	case len(all) == 0:
		e.Why, e.Hint = path+" demands other security than the mount's", "try another sec=, or export it with sec=sys"
	case slices.Contains(all, wire.AuthSys):
		// With sec=sys the flavor is not what is wrong: Linux answers so where it demands TLS.
		e.Why = fmt.Sprintf("%s takes sec=%s", path, nfs3.FlavorNames(all))
		e.Hint += "; if that is what was refused, does its export demand TLS (xprtsec=tls, or with a certificate of this host xprtsec=mtls)?"
	default:
		e.Why = fmt.Sprintf("%s demands sec=%s", path, nfs3.FlavorNames(all))
	}
	return e
}

// tell has the log say, once, where a name leads.
func (c *Client) tell(ctx context.Context, cr nfsclient.Cred, dir nfsclient.Handle, name string, st wire.Status) {
	e, key := &c.elsewhere, fmt.Sprintf("%d %s/%s", st, dir, name)
	e.mu.Lock()
	_, known := e.told[key]
	if known || len(e.told) >= maxTold {
		e.mu.Unlock()
		return
	}
	if e.told == nil {
		e.told = map[string]struct{}{}
	}
	e.told[key] = struct{}{}
	e.mu.Unlock()
	why, hint := c.led(ctx, cr, dir, name, printable(name), st)
	c.cf.Log.Warn(fmt.Sprintf("%s: %s (%s)", c.cf.Host, why, hint))
}
