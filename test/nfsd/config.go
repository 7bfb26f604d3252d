package nfsd

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"path"
	"sync/atomic"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	nfs4 "github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	nlm "github.com/rdmafs/rdmafs/nfsclient/nlm/wire"
	"github.com/rdmafs/rdmafs/test/nfsd/v4"
	"github.com/rdmafs/rdmafs/test/nfsd/vfs"
	"github.com/rdmafs/rdmafs/transport"
)

// Squash says which users are made anonymous. It matters only where the server
// is root; otherwise it does everything as its own user.
type Squash uint8

const (
	// SquashRoot makes user and group 0 anonymous.
	SquashRoot Squash = iota
	// SquashNone takes every user as given.
	SquashNone
	// SquashAll makes everyone anonymous.
	SquashAll
)

// Nobody is the default anonymous user and group.
const Nobody = 65534

// Export is a directory that clients may mount.
type Export struct {
	// Dir is the directory; Path the name under which it is exported, Dir
	// itself when empty.
	Dir, Path string
	// ID stands in handles and must stay the same over restarts. 0 derives it
	// from Path.
	ID       uint32
	ReadOnly bool
	// ACL serves access control lists (NFSACL), as far as the file system has them.
	ACL    bool
	Squash Squash
	// AnonUID and AnonGID are the anonymous user; nil means Nobody.
	AnonUID, AnonGID *uint32
	// Async answers changes of names and attributes before they are on stable
	// storage. Data is not affected.
	Async bool
	// Lossy keeps unstable writes in memory until COMMIT.
	Lossy bool
	// InodeHandles refuses handles made by the kernel.
	InodeHandles bool
	// Secure refuses locks to clients with a port that needs no privileges, as
	// Linux servers do without the export option insecure.
	Secure bool
	// Security lists the flavors of security by which files may be reached, in the
	// order of preference: empty means SecSys, with which SecNone goes. MOUNT and
	// locks come by any.
	Security []uint32
	// Encrypted refuses the files of the export to calls by TCP that have not come by TLS, as a Linux server does
	// with the export options xprtsec=tls:mtls: each with WRONGSEC, or ACCES of version 3, the root not
	// excepted. TLS.Require in contrast denies such calls before anybody looks at their export.
	Encrypted bool
	// ClockAhead is by how many seconds the server's clock is ahead of this
	// machine's.
	ClockAhead int64
}

// Config says what a server serves.
type Config struct {
	Exports []Export
	// Versions are the versions of NFS that are served; 0 means V3.
	Versions Versions
	// Lease is how long a client of version 4 may be silent; 0 means 90 s.
	Lease time.Duration
	// Delegations has clients of version 4 that can be called back get read and write
	// delegations. What is done on the host itself recalls none.
	Delegations bool
	// MaxIO bounds one READ or WRITE, in bytes. 0 means 1 MiB.
	MaxIO int
	// MaxOpen bounds the cached files of an export; 0 chooses.
	MaxOpen int
	// Duplicates bounds the remembered replies; 0 means 4096.
	Duplicates int
	// Workers bounds the calls served at once for a connection; 0 leaves it
	// to the transport.
	Workers int
	// Grace is how long after a Crash locks may be reclaimed, and nothing else be
	// done with locks; 0 means not at all, negative until EndGrace. With version 4 it
	// holds for files that were open, too.
	Grace time.Duration
	// Kerberos, when not nil, has the server take calls of RPCSEC_GSS.
	Kerberos *Kerberos
	// Callbacks, when not nil, has locks wait here, and clients told when they have
	// them.
	Callbacks *Callbacks
	// Faults, when not nil, are carried out.
	Faults *Faults
	// Wrap, when not nil, is given the server's handler and returns the one
	// that transports call.
	Wrap func(transport.Handler) transport.Handler
	// TLS, when not nil, serves clients of ListenTCP by TLS that ask for it (RFC 9289).
	TLS *TLS
	// Log gets clients and listeners that come and go. It may be nil.
	Log *slog.Logger
}

// TLS is how connections by TCP are encrypted.
type TLS struct {
	// Cert and Key are PEM files. With ClientCA, a file too, clients must show a certificate that it has signed.
	Cert, Key, ClientCA string
	// Require denies calls of NFS and NFSACL by TCP that come in clear text, with AUTH_TOOWEAK, but for
	// NULL. MOUNT, NLM and the portmapper are served: clients ask them in clear text.
	Require bool
}

const (
	defaultMaxIO = 1 << 20
	minMaxIO     = 4096
	maxMaxIO     = 16 << 20
)

// Action is what a fault does to a call.
type Action uint8

const (
	// Proceed does nothing. A hook that is to delay a call blocks until its
	// event or ctx is done, and returns this.
	Proceed Action = iota
	// Drop ends the connection instead of answering the call; from Before, it
	// is not carried out either.
	Drop
	// Hang is Drop, but the connection stays, and with it the silence.
	Hang
	// Crash is Drop, and Server.Crash.
	Crash
)

// Event is a call that a fault may be applied to.
type Event struct {
	Transport, Peer  string
	XID              uint32
	Prog, Vers, Proc uint32
	// Replayed: the reply comes out of the duplicate request cache, or that of a session.
	Replayed bool
}

// Faults are hooks for tests. ctx ends with the server, or with the connection
// if the transport reports that.
type Faults struct {
	// Before is called when a call has been received, After when its reply is ready.
	Before, After func(ctx context.Context, e Event) Action
	// Sync is called before each fsync of a file; its error replaces the fsync.
	Sync func() error
	// Write is called before n bytes are written to a file; its error, ENOSPC say,
	// replaces the write.
	Write func(n int) error
	// Operation is called before each operation of a COMPOUND; a status that is not OK is the
	// operation's, which is not carried out then.
	Operation func(ctx context.Context, op nfs4.Operation) nfsclient.Status
	// Offload says whether a COPY that may go on after its answer does.
	Offload func() bool
	// Callback is told of each callback of version 4 that is about to be sent.
	Callback func(id nfs4.ClientID, op nfs4.CBOp)
	// Lock is called for each TEST, LOCK, CANCEL and UNLOCK of NLM; what it returns
	// is the answer, but for Granted.
	Lock func(proc uint32) nlm.Stat
}

// export is an Export being served.
type export struct {
	Export
	tree             *vfs.Tree
	v4               *v4.Export // what version 4 knows of it
	fsid             uint64
	anonUID, anonGID uint32
	next             atomic.Pointer[export] // what has replaced it
}

func (x Export) normalize() (Export, error) {
	if x.Path == "" {
		x.Path = x.Dir
	}
	x.Path = path.Clean(x.Path)
	if !path.IsAbs(x.Path) {
		return x, fmt.Errorf("export %q: not an absolute path", x.Path)
	}
	if x.ID == 0 {
		h := fnv.New32a()
		h.Write([]byte(x.Path))
		x.ID = h.Sum32() | 1
	}
	return x, nil
}

func (s *Server) open(x Export) (*export, error) {
	e := &export{Export: x, anonUID: Nobody, anonGID: Nobody, fsid: 0x7264_6d61_0000_0000 | uint64(x.ID)}
	if x.AnonUID != nil {
		e.anonUID = *x.AnonUID
	}
	if x.AnonGID != nil {
		e.anonGID = *x.AnonGID
	}
	cfg := vfs.Config{
		Dir: x.Dir, ID: x.ID, ReadOnly: x.ReadOnly, Async: x.Async, Lossy: x.Lossy, InodeHandles: x.InodeHandles,
		MaxOpen:    s.cfg.MaxOpen,
		SyncFailed: func() { s.renew(false) },
	}
	if s.cfg.Faults != nil {
		cfg.SyncFault, cfg.WriteFault = s.cfg.Faults.Sync, s.cfg.Faults.Write
	}
	t, err := vfs.New(cfg)
	if err != nil {
		return nil, err
	}
	e.tree = t
	e.v4 = &v4.Export{Path: x.Path, Tree: t, FSID: e.fsid, ClockAhead: x.ClockAhead, Flavors: e.flavors(), Allows: e.allows, Cred: e.cred}
	return e, nil
}
