package options

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
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
	// XprtSec is "none", "tls" or "mtls"; the others are absolute paths, "" for those of tlshd.
	XprtSec, XprtCA, XprtCert, XprtKey string
	Reg                                string // "window", "region", or "" for what the adapter has
	ReadOnly                           bool
	// AllowOther, DefaultPermissions, Fuse and Over are for the FUSE mount; Over is
	// "dev" or "ring".
	AllowOther, DefaultPermissions bool
	Fuse                           []string
	Over                           string

	AcRegMin, AcRegMax, AcDirMin, AcDirMax time.Duration
	NoAC                                   bool
	NoACL                                  bool

	// What is logged and shown of the mount: Log is the least level, a word of LogLevels; LogFile
	// and PProf are absolute paths, Metrics is an address or a path behind "unix:".
	Log, LogFile, LogFormat, Metrics, PProf string
	Slow                                    time.Duration // 0: no call is slow

	// NoLock has all locks local to the mount, LocalLock those of one kind: "none",
	// "all", "flock" or "posix".
	NoLock    bool
	LocalLock string

	// Retry is for how long a server that cannot be reached is tried again; negative: as
	// Patience has it. Background has the command return after the first attempt.
	Retry      time.Duration
	Background bool
	// Debug has the log tell more, and each FUSE request.
	Debug bool

	// SoftErr has calls of a soft mount that took too long fail with ETIMEDOUT.
	SoftErr bool
	// LookupCache is "all", "pos" or "none".
	LookupCache string
	NoCTO       bool
	// SoftReval uses what is cached of names and attributes beyond its time while the server is silent.
	SoftReval bool
	// NoResvPort connects from ports above 1023 even where this process may use others.
	NoResvPort bool
	// Sec is "sys", "krb5", "krb5i" or "krb5p"; "": what the server takes, sys before others.
	// Keytab, Principal and CCache say where tickets come from; "": the usual places.
	Sec, Keytab, Principal, CCache string
	// IPv6 uses IPv6 addresses of the server alone.
	IPv6 bool
	// Addr is the server's address, MountHost that of MOUNT and rpcbind by name or
	// address; without them both are found by the server's name.
	Addr      netip.Addr
	MountHost string
	// FSName is shown in the mount table in place of the source.
	FSName string
	// AutoUnmount has fusermount3 unmount if the daemon ends without having done so.
	AutoUnmount bool
	// RemotePorts are addresses of the server in place of Addr, LocalPorts those of this host
	// in place of SrcAddr: connections are spread over them. RemoteDNS: RemotePorts are
	// those of the server's name.
	RemotePorts, LocalPorts []netip.Addr
	RemoteDNS               bool
	// NoReadDirPlus lists directories by READDIR.
	NoReadDirPlus bool
	// Sloppy ignores words that are not in the table.
	Sloppy bool
	// Notes says what was not taken as it stood, a line each.
	Notes []string
}

// note adds to Notes.
func (o *Options) note(format string, args ...any) {
	o.Notes = append(o.Notes, fmt.Sprintf(format, args...))
}

// Patience is for how long a server that cannot be reached is tried again, as nfs(5) has it.
func (o *Options) Patience() time.Duration {
	switch {
	case o.Retry >= 0:
		return o.Retry
	case o.Background:
		return 10_000 * time.Minute
	}
	return 2 * time.Minute
}

// Patient reports whether the options ask for a server to be tried again, by bg or retry=.
func (o *Options) Patient() bool { return o.Background || o.Retry > 0 }

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
		Vers:     versAuto,
		Timeo:    60 * time.Second,
		Retrans:  2,
		NConnect: 1,
		Inline:   8192,
		RDMAVers: "1",
		XprtSec:  "none",
		Over:     "dev",
		AcRegMin: 3 * time.Second, AcRegMax: 60 * time.Second,
		AcDirMin: 30 * time.Second, AcDirMax: 60 * time.Second,
		LocalLock:   "none",
		Retry:       -1,
		LookupCache: "all",
		Log:         "info",
		LogFormat:   "text",
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
// last one holds. The error has all that is wrong.
func Parse(lists []string) (Options, error) {
	o := Default()
	o.Vers = ""
	err := o.parse(lists)
	return o, err
}

// parse changes o by lists of options.
func (o *Options) parse(lists []string) error {
	words := split(lists)
	o.Sloppy = o.Sloppy || slices.Contains(words, "sloppy")
	var unknown, bad []string
	helped := false
	for _, word := range words {
		name, value, has := strings.Cut(word, "=")
		option := byName[name]
		helped = helped || ofHelpers[name]
		switch {
		case option != nil:
			if err := option.set(o, value, has); err != nil {
				bad = append(bad, fmt.Sprintf("%q: %v", word, err))
			}
		case strings.HasPrefix(name, "x-") || strings.HasPrefix(name, "X-"):
		case o.Sloppy:
			o.Notes = append(o.Notes, fmt.Sprintf("mount option %q is not known and ignored (sloppy)", name))
		default:
			is := fmt.Sprintf("%q", name)
			if near := nearest(name); near != "" {
				is += fmt.Sprintf(" (did you mean %q?)", near)
			}
			unknown = append(unknown, is)
		}
	}
	if o.Vers == "" {
		o.Vers = defaultVersion(helped)
	}
	if o.AcRegMin > o.AcRegMax || o.AcDirMin > o.AcDirMax {
		bad = append(bad, "acregmin and acdirmin may not exceed acregmax and acdirmax")
	}
	if o.Encrypted() && o.Proto != "tcp" {
		bad = append(bad, fmt.Sprintf("xprtsec=%s goes with proto=tcp, which must be given, too: RFC 9289 has no form for RDMA", o.XprtSec))
	}
	ofTLS := func(word string) bool { return strings.HasPrefix(word, "xprtsec_") }
	if !o.Encrypted() && slices.ContainsFunc(words, ofTLS) && !slices.Contains(words, "xprtsec=none") {
		bad = append(bad, "xprtsec_ca, xprtsec_cert and xprtsec_key go with xprtsec=tls or xprtsec=mtls, without which nothing is encrypted")
	}
	if (o.XprtCert == "") != (o.XprtKey == "") {
		bad = append(bad, "xprtsec_cert and xprtsec_key go together")
	}
	return wrong(unknown, bad)
}

// Encrypted reports whether NFS goes by TLS.
func (o *Options) Encrypted() bool { return o.XprtSec == "tls" || o.XprtSec == "mtls" }

// split is the words of all lists.
func split(lists []string) (words []string) {
	for _, list := range lists {
		for word := range strings.SplitSeq(list, ",") {
			if word != "" {
				words = append(words, word)
			}
		}
	}
	return words
}

// wrong is the error of words that are unknown and of bad ones; nil if there are neither.
func wrong(unknown, bad []string) error {
	var all []string
	switch len(unknown) {
	case 0:
	case 1:
		all = append(all, "unknown mount option "+unknown[0]+" (rdmafs mount --help lists the known ones)")
	default:
		all = append(all, "unknown mount options "+strings.Join(unknown, ", ")+" (rdmafs mount --help lists the known ones)")
	}
	switch len(bad) {
	case 0:
	case 1:
		all = append(all, "mount option "+bad[0])
	default:
		all = append(all, "mount options "+strings.Join(bad, "; "))
	}
	if len(all) == 0 {
		return nil
	}
	return errors.New(strings.Join(all, "; "))
}
