package options

import (
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// Options is what -o can say. Units are those of nfs(5) turned into Go's.
type Options struct {
	Proto     string // "rdma" or "tcp"
	RDMA      string // one of Providers, or "auto"
	Port      uint16 // 0: the protocol's
	MountPort uint16 // 0: ask rpcbind
	NLMPort   uint16 // 0: ask rpcbind
	Vers      string
	RSize     int // bytes; 0: as large as both sides can
	WSize     int
	Timeo     time.Duration
	Retrans   int
	Soft      bool
	NConnect  int
	NoDDP     bool
	CRC       bool
	Inline    int // RPC-over-RDMA inline threshold, bytes
	RDMAVers  string
	// PadAlign and PadThreshold are of msgp; 0 without it.
	PadAlign, PadThreshold int
	CCP                    bool
	ReadRead               bool
	RDMADev                string
	SrcAddr                netip.Addr
	Reg                    string // "window", "region", or "" for what the adapter has
	ReadOnly               bool
	// AllowOther, DefaultPermissions, Fuse and Over are for the FUSE mount; Over is
	// "dev" or "ring".
	AllowOther, DefaultPermissions bool
	Fuse                           []string
	Over                           string

	AcRegMin, AcRegMax, AcDirMin, AcDirMax time.Duration
	NoAC                                   bool
	NoACL                                  bool

	// NoLock has all locks local to the mount, LocalLock those of one kind: "none",
	// "all", "flock" or "posix".
	NoLock    bool
	LocalLock string
}

// ServerLocks says which locks are taken at the server: those of fcntl(2), and those
// of flock(2).
func (o *Options) ServerLocks() (posix, flock bool) {
	local := func(kind string) bool { return o.NoLock || o.LocalLock == "all" || o.LocalLock == kind }
	return !local("posix"), !local("flock")
}

// The ports of NFS.
const (
	PortRDMA = 20049
	PortNFS  = 2049
)

// Default is what holds without -o.
func Default() Options {
	return Options{
		Proto:    "rdma",
		RDMA:     "auto",
		Vers:     "3",
		Timeo:    60 * time.Second,
		Retrans:  2,
		NConnect: 1,
		Inline:   8192,
		RDMAVers: "1",
		Over:     "dev",
		AcRegMin: 3 * time.Second, AcRegMax: 60 * time.Second,
		AcDirMin: 30 * time.Second, AcDirMax: 60 * time.Second,
		LocalLock: "none",
	}
}

// NFSPort is the port to connect to.
func (o *Options) NFSPort() uint16 {
	switch {
	case o.Port != 0:
		return o.Port
	case o.Proto == "rdma":
		return PortRDMA
	}
	return PortNFS
}

// Parse reads what stood behind one or more -o. Of contradicting options the
// last one holds.
func Parse(lists []string) (Options, error) {
	o := Default()
	for _, list := range lists {
		for word := range strings.SplitSeq(list, ",") {
			if word == "" {
				continue
			}
			name, value, has := strings.Cut(word, "=")
			option := byName[name]
			if option == nil && strings.HasPrefix(name, "x-") {
				continue
			}
			if option == nil {
				return o, fmt.Errorf("unknown mount option %q (rdmafs mount --help lists the known ones)", name)
			}
			if err := option.set(&o, value, has); err != nil {
				return o, fmt.Errorf("mount option %q: %v", word, err)
			}
		}
	}
	if o.AcRegMin > o.AcRegMax || o.AcDirMin > o.AcDirMax {
		return o, fmt.Errorf("mount options: acregmin and acdirmin may not exceed acregmax and acdirmax")
	}
	return o, nil
}
