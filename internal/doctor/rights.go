package doctor

import (
	"context"
	"fmt"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// directory is the export's top directory as the caller may use it.
type directory struct {
	nfsclient.Client
	cred nfsclient.Cred
	h    nfsclient.Handle
	attr nfsclient.Attr
	// rights are those that the server says the caller has.
	rights nfsclient.AccessMask
	// file was made to move data through; empty if that failed, with why.
	file, name string
	why        error
	made       nfsclient.Attr
}

func (d *directory) root() bool { return d.cred.UID == 0 }

func (d *directory) may(want nfsclient.AccessMask) bool { return d.rights&want == want }

// owner says whose the directory is.
func (d *directory) owner() string {
	return fmt.Sprintf("its directory has mode %04o and belongs to uid %d", d.attr.Mode, d.attr.UID)
}

const squashed = "root is nobody here (root_squash)"

// askRights calls ACCESS as the user who runs the doctor, and who will use the
// mount.
func (d *directory) askRights(ctx context.Context) error {
	d.h, d.attr = d.Root()
	got, a, err := d.Access(ctx, d.cred, d.h, nfsclient.AccessRead|nfsclient.AccessLookup|
		nfsclient.AccessModify|nfsclient.AccessExtend|nfsclient.AccessDelete)
	if a != nil {
		d.attr = *a
	}
	d.rights = got
	return err
}

// step reports what the caller may do. A lack of rights does not keep the mount from
// succeeding: it is a warning.
func (d *directory) step() Step {
	const name = "rights"
	who := fmt.Sprintf("uid %d", d.cred.UID)
	status, answered := nfsclient.StatusOf(d.why)
	denied := answered && (status == nfsclient.ErrAccess || status == nfsclient.ErrPerm)
	switch {
	case !d.may(nfsclient.AccessRead | nfsclient.AccessLookup):
		if d.root() {
			return warning(name, squashed+", and nobody may not enter the export: "+d.owner(),
				"export it with no_root_squash, or use the mount as a user who may enter (allow_other lets them in)")
		}
		return warning(name, who+" may not enter the export: "+d.owner(), "give the user the right on the server, or mount a directory below that they may enter")
	case d.file != "" && d.root() && d.made.UID != 0:
		return warning(name, fmt.Sprintf("%s: files that root makes belong to uid %d", squashed, d.made.UID),
			"if root is to own what it makes: export with no_root_squash")
	case d.file != "":
		return ok(name, who+" may read and write")
	case answered && status == nfsclient.ErrReadOnly:
		return warning(name, "the export is read-only for this host", "if it is to be written: rw in /etc/exports on the server")
	case d.root() && denied:
		return warning(name, squashed+", and nobody may not write in the export: "+d.owner(), "export it with no_root_squash, or write as a user who may")
	case !d.may(nfsclient.AccessModify) && !d.may(nfsclient.AccessExtend):
		return ok(name, who+" may read, and not write: "+d.owner())
	}
	return ok(name, who+" may read, and write by what ACCESS says")
}
