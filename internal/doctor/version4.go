package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// steps of a mount of version 4, in order, by the operations that they are made of.
var mountSteps = []struct{ name, op, does string }{
	{"client ID", "EXCHANGE_ID", "the server knows this client"},
	{"session", "CREATE_SESSION", "created"},
	{"reclaim", "RECLAIM_COMPLETE", "nothing was to be reclaimed"},
	{"pseudo root", "GETATTR", "the server has one"},
	{"path", "LOOKUP", "the server has each directory of it"},
}

// The statuses that the code asks for by name.
const (
	statusDelay    = "DELAY"
	statusGrace    = "GRACE"
	statusBadOwner = "BADOWNER"
)

// cures are what helps against what a server of version 4 answers.
var cures = map[string]string{
	"MINOR_VERS_MISMATCH": "the server does not have this minor version: vers=4 takes the higher of 4.2 and 4.1 that it has, vers=auto version 3, too",
	"CLID_INUSE": "another user of this host, or a clone of it, goes by this client's name at the server: unmount what it has mounted there, " +
		"or wait for the server's lease time (90 s with Linux) and try again",
	"WRONGSEC": "the server demands another sec= for this directory than was given: export it with sec=sys, or name what it demands (on a Linux server: exportfs -v); " +
		"where that is sys, it is TLS: proto=tcp,xprtsec=tls, or xprtsec=mtls",
	statusGrace: "the server was restarted and grants only what its clients had before; that takes as long as its lease (90 s with Linux) at the most, " +
		"and what waits then goes on by itself",
	statusDelay: "the server puts it off again and again: on a Linux server look whether rpc.mountd (nfs-mountd) runs, which the kernel asks about exports",
	statusBadOwner: "let both sides use numbers: on a Linux server echo Y > /sys/module/nfsd/parameters/nfs4_disable_idmapping, with nfs-ganesha Allow_Numeric_Owners = true; " +
		"or have the same Domain in /etc/idmapd.conf here and there, and the same accounts",
	"NOENT":  "with version 4 the path is that of the server's pseudo file system: mount the root (/) and look around",
	"ACCESS": "does the server let this host in? on a Linux server: /etc/exports and exportfs -v",
	"PERM":   "does the server let this host in, and its port? an export without insecure wants ports below 1024",
	"MOVED":  "mount it from the server that it has moved to",
	"STALE":  "the export is there no more, or its file system is not mounted on the server: exportfs -ra",
	"NOSPC":  "the server has no memory for another session",
}

// steps4 are the steps of a mount of version 4, of which err is the error; none with version 3.
func (e *examination) steps4(c Contact, err error) (steps []Step) {
	if e.version != 4 {
		return nil
	}
	all := c.Compounds()
	for _, s := range mountSteps {
		at := lastOf(all, s.op)
		switch {
		case at < 0 && err == nil:
			continue // the export is the pseudo root
		case at < 0:
			steps = append(steps, skipped(s.name, s.op+" was not sent"))
			continue
		}
		answered := answers(all, s.op)
		switch last := &all[at]; {
		case last.Err == nil && last.Status == "":
			detail := s.does
			if len(answered) > 0 {
				detail += ", after it had answered " + strings.Join(answered, " and ")
			}
			steps = append(steps, ok(s.name, detail))
		case err == nil:
			// What did not succeed was not needed.
		default:
			steps = append(steps, e.refused(s.name, s.op, answered, err))
		}
	}
	// The failure stands last: what was not reached after it says nothing.
	if at := slices.IndexFunc(steps, func(s Step) bool { return s.Status == Failure }); at >= 0 {
		steps = steps[:at+1]
	}
	return steps
}

// refused is the failure of a step by what the server has answered, the last of answered, or by err.
func (e *examination) refused(name, op string, answered []string, err error) Step {
	what, remedy := e.Explain(err)
	if len(answered) == 0 {
		return failure(name, fmt.Sprintf("%s was not answered: %s", op, what), remedy)
	}
	status := answered[len(answered)-1]
	if cure, known := cures[status]; known {
		remedy = cure
	}
	if !strings.Contains(what, status) {
		what = fmt.Sprintf("the server answered %s with %s: %s", op, status, what)
	}
	return failure(name, what, remedy)
}

// lastOf is the last call of an operation, -1 without any.
func lastOf(all []Compound, op string) int {
	for i, c := range slices.Backward(all) {
		if c.Op == op {
			return i
		}
	}
	return -1
}

// answers are the errors that the server has answered an operation with, each once, the last one last.
func answers(all []Compound, op string) (statuses []string) {
	for _, c := range all {
		if c.Op == op && c.Err == nil && c.Status != "" {
			statuses = append(slices.DeleteFunc(statuses, func(s string) bool { return s == c.Status }), c.Status)
		}
	}
	return statuses
}

// grace says whether the server opens files. In its grace period it does not, and nothing else can be tried.
func (e *examination) grace(c Contact, d *directory) (steps []Step, is bool) {
	const name = "openings"
	if !e.Write {
		return nil, false
	}
	answered := answers(c.Compounds(), "OPEN")
	inGrace := slices.Contains(answered, statusGrace)
	switch {
	case d.file != "" && inGrace:
		return []Step{ok(name, "the server opens files, since its grace period has ended")}, false
	case d.file != "":
		return []Step{ok(name, "the server opens files")}, false
	case inGrace:
		return []Step{warning(name, "the server is in its grace period: files that are opened and locks that are taken wait until it ends", cures[statusGrace]),
			skipped("transfer", "no file is opened"), skipped("locks", "none is granted")}, true
	case len(answered) > 0 && errors.Is(d.why, context.DeadlineExceeded):
		last := answered[len(answered)-1]
		return []Step{warning(name, "the server opens no file: it answers OPEN with "+last, cures[last]),
			skipped("transfer", "no file is opened"), skipped("locks", "none is granted")}, true
	}
	return nil, false // what the rights say, says it
}

// owners says by what names the server knows the owners of files. They matter to who gives files away, as root does.
func (e *examination) owners(ctx context.Context, c Contact, d *directory) []Step {
	const name = "owners"
	if d.file == "" {
		return nil
	}
	before := len(c.Compounds())
	uid, gid := d.made.UID, d.made.GID
	if uid == nobody && e.Cred.UID != nobody && !d.root() {
		return []Step{warning(name, fmt.Sprintf("a file that uid %d has made belongs to nobody: the server names its owner in a way that nobody here is known by", e.Cred.UID), cures[statusBadOwner])}
	}
	_, err := d.SetAttr(ctx, d.cred, nfsclient.Handle(d.file), nil, nfsclient.SetAttr{UID: &uid, GID: &gid})
	all := c.Compounds()
	refused := slices.Contains(answers(all[min(before, len(all)):], "SETATTR"), statusBadOwner)
	switch {
	case refused && err != nil:
		return []Step{warning(name, fmt.Sprintf("the server takes neither the numbers nor the names of owners (%s): chown fails", statusBadOwner), cures[statusBadOwner])}
	case refused:
		return []Step{ok(name, "by name: the server does not take their numbers")}
	case err != nil:
		what, _ := e.Explain(err)
		return []Step{skipped(name, "the owner of a file cannot be set: "+what)}
	}
	return []Step{ok(name, "by number")}
}

// nobody owns files whose owner's name is not known here.
const nobody = 65534
