package status

import (
	"os"
	"time"

	"github.com/rdmafs/rdmafs/cache"
	"github.com/rdmafs/rdmafs/fs"
	"github.com/rdmafs/rdmafs/internal/options"
	"github.com/rdmafs/rdmafs/internal/session"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/account"
)

// Report is what a daemon says of its mount at one moment, as "rdmafs stats --json"
// prints it.
type Report struct {
	InForce
	// Age is how long the mount has been there, in seconds; of a difference, how long that took.
	Age        float64             `json:"age"`
	Calls      transport.Stats     `json:"calls"`
	Procedures []account.Procedure `json:"procedures,omitempty"`
	Cache      cache.Counts        `json:"cache"`
	// Requests counts those of the kernel, by opcode.
	Requests map[string]uint64 `json:"fuse_requests,omitempty"`
	State    State             `json:"state"`
}

// Status is what "rdmafs status --json" prints.
type Status struct {
	InForce
	State State `json:"state"`
}

// Status is the part of r that is no count.
func (r *Report) Status() Status { return Status{r.InForce, r.State} }

// InForce is what holds of a mount.
type InForce struct {
	Source     string           `json:"source"`
	MountPoint string           `json:"mount_point"`
	PID        int              `json:"pid"`
	Transport  string           `json:"transport"`             // "rdma/iwarp" or "tcp"
	Encryption string           `json:"encryption,omitempty"`  // what the last connection agreed on (xprtsec=); "" for clear text
	Security   string           `json:"security"`              // sec= in force
	Server     string           `json:"server"`                // address and port
	Device     string           `json:"device,omitempty"`      // RDMA device
	Keys       string           `json:"keys,omitempty"`        // what the server is given: "window" or "region"
	RDMA       *transport.Terms `json:"rdma,omitempty"`        // agreed on with the server
	LoweredMTU int              `json:"lowered_mtu,omitempty"` // path MTU of RoCE, where the route's did not pass
	FUSE       string           `json:"fuse"`                  // how requests come: "dev" or "ring"
	Version    string           `json:"version"`               // of NFS
	RSize      int              `json:"rsize"`
	WSize      int              `json:"wsize"`
	NConnect   int              `json:"nconnect"`
	ReadOnly   bool             `json:"read_only"`
	Soft       bool             `json:"soft"`
	Attributes Attributes       `json:"attributes"`
	Debug      bool             `json:"debug"`               // the log tells more
	LogPlace   string           `json:"log_place,omitempty"` // LogJournal, LogSyslog, LogStderr or a file
	Timeo      float64          `json:"timeo"`               // seconds
	Retrans    int              `json:"retrans"`
	Locks      string           `json:"locks"`               // which are the server's: "all", "fcntl", "flock" or "none"
	LockNote   string           `json:"lock_note,omitempty"` // why the server's fail
	LockWait   string           `json:"lock_wait,omitempty"` // how locks that others have are waited for: "granted" or "polling"
	Buffers    int              `json:"buffers"`             // bytes that the buffers may take
	Note       string           `json:"note,omitempty"`      // why that is less than usual
}

// Where logs go that are no files.
const (
	LogJournal = "journal"
	LogSyslog  = "syslog"
	LogStderr  = "stderr"
)

// FieldMountPoint is the field of journald's records that has the mount point.
const FieldMountPoint = "RDMAFS_MOUNTPOINT"

// Attributes is for how many seconds they are fresh.
type Attributes struct {
	NoAC     bool    `json:"noac"`
	AcRegMin float64 `json:"acregmin"`
	AcRegMax float64 `json:"acregmax"`
	AcDirMin float64 `json:"acdirmin"`
	AcDirMax float64 `json:"acdirmax"`
}

// Of is the report on a session that this process has mounted at a directory as f.
func Of(s *session.Session, mountPoint string, f *fs.FS) Report {
	now, readOnly := time.Now(), f.ReadOnly()
	cfg, info, inForce := s.Config(), s.Client().Info(), s.Options()
	o := &inForce
	r := Report{
		InForce: InForce{
			Source:     cfg.Source.Text,
			MountPoint: mountPoint,
			PID:        os.Getpid(),
			Transport:  s.How(),
			Encryption: s.Encryption(),
			Server:     s.Server().String(),
			FUSE:       f.Over(),
			Version:    info.Version,
			RSize:      info.ReadMax,
			WSize:      info.WriteMax,
			NConnect:   o.NConnect,
			Security:   s.Security(),
			ReadOnly:   readOnly,
			Soft:       o.Soft,
			Attributes: Attributes{o.NoAC, o.AcRegMin.Seconds(), o.AcRegMax.Seconds(), o.AcDirMin.Seconds(), o.AcDirMax.Seconds()},
			Debug:      o.Debug,
			Timeo:      o.Timeo.Seconds(),
			Retrans:    o.Retrans,
			Locks:      serverLocks(o),
			LockNote:   s.LockNote(),
			LockWait:   s.LockWait(),
			Buffers:    s.BufferBytes(),
			Note:       s.Note(),
			LoweredMTU: s.LoweredMTU(),
		},
		Age:        now.Sub(s.Opened()).Seconds(),
		Calls:      s.Stats(),
		Procedures: s.Procedures(),
		Cache:      s.Cache().Counts(),
		Requests:   f.Requests(),
		State:      stateOf(s, f, now),
	}
	if r.Calls.Terms.Version != 0 {
		r.RDMA = &r.Calls.Terms
	}
	if k, ok := s.Keys(); ok {
		r.Device, r.Keys = k.Device, k.Kind
	}
	return r
}

// serverLocks says which locks are taken at the server.
func serverLocks(o *options.Options) string {
	switch posix, flock := o.ServerLocks(); {
	case posix && flock:
		return "all"
	case posix:
		return "fcntl"
	case flock:
		return "flock"
	}
	return "none"
}
