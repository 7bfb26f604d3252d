package status

import (
	"os"

	"github.com/rdmafs/rdmafs/internal/options"
	"github.com/rdmafs/rdmafs/internal/session"
	"github.com/rdmafs/rdmafs/transport"
)

// Report is what a daemon says of its mount at one moment, as "rdmafs stats --json"
// prints it.
type Report struct {
	InForce
	Calls transport.Stats `json:"calls"`
}

// InForce is what holds of a mount, as "rdmafs status --json" prints it.
type InForce struct {
	Source     string           `json:"source"`
	MountPoint string           `json:"mount_point"`
	PID        int              `json:"pid"`
	Transport  string           `json:"transport"`             // "rdma/iwarp" or "tcp"
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
	Timeo      float64          `json:"timeo"` // seconds
	Retrans    int              `json:"retrans"`
	Locks      string           `json:"locks"`               // which are the server's: "all", "fcntl", "flock" or "none"
	LockNote   string           `json:"lock_note,omitempty"` // why the server's fail
	Buffers    int              `json:"buffers"`             // bytes that the buffers may take
	Note       string           `json:"note,omitempty"`      // why that is less than usual
}

// Of is the report on a session that this process has mounted at a directory, whose
// requests come over what fs.FS.Over says.
func Of(s *session.Session, mountPoint, over string) Report {
	cfg, info := s.Config(), s.Client().Info()
	o := &cfg.Options
	r := Report{
		InForce: InForce{
			Source:     cfg.Source.Text,
			MountPoint: mountPoint,
			PID:        os.Getpid(),
			Transport:  s.How(),
			Server:     s.Server().String(),
			FUSE:       over,
			Version:    info.Version,
			RSize:      info.ReadMax,
			WSize:      info.WriteMax,
			NConnect:   o.NConnect,
			ReadOnly:   o.ReadOnly,
			Soft:       o.Soft,
			Timeo:      o.Timeo.Seconds(),
			Retrans:    o.Retrans,
			Locks:      serverLocks(o),
			LockNote:   s.LockNote(),
			Buffers:    s.BufferBytes(),
			Note:       s.Note(),
			LoweredMTU: s.LoweredMTU(),
		},
		Calls: s.Stats(),
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
