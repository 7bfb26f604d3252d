package main

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// options is what -o can say. Units are those of nfs(5) turned into Go's.
type options struct {
	proto     string // "rdma" or "tcp"
	rdma      string // provider, or "auto"
	port      uint16 // 0: the protocol's
	mountPort uint16 // 0: ask rpcbind
	vers      string
	rsize     int // bytes; 0: as large as both sides can
	wsize     int
	timeo     time.Duration
	retrans   int
	soft      bool
	nconnect  int
	noDDP     bool
	crc       bool
	inline    int // RPC-over-RDMA inline threshold, bytes
	rdmaVers  string
	// padAlign and padThreshold are of msgp; 0 without it.
	padAlign, padThreshold int
	ccp                    bool
	readRead               bool
	rdmaDev                string
	srcAddr                netip.Addr
	reg                    string // "window", "region", or "" for what the adapter has
	readOnly               bool
	// allowOther and fuse are for the FUSE mount.
	allowOther, defaultPermissions bool
	fuse                           []string

	acRegMin, acRegMax, acDirMin, acDirMax time.Duration
	noAC                                   bool
}

const (
	portRDMA = 20049
	portNFS  = 2049
)

func defaultOptions() options {
	return options{
		proto:    "rdma",
		rdma:     "auto",
		vers:     "3",
		timeo:    60 * time.Second,
		retrans:  2,
		nconnect: 1,
		inline:   4096,
		rdmaVers: "1",
		acRegMin: 3 * time.Second, acRegMax: 60 * time.Second,
		acDirMin: 30 * time.Second, acDirMax: 60 * time.Second,
	}
}

// nfsPort is the port to connect to.
func (o *options) nfsPort() uint16 {
	switch {
	case o.port != 0:
		return o.port
	case o.proto == "rdma":
		return portRDMA
	}
	return portNFS
}

// optionHelp is the text of --help; parseOptions takes exactly these.
const optionHelp = `Mount options, behind -o with commas between, as in nfs(5) where they have the same name:
  proto=rdma|tcp      how calls travel (default rdma); "rdma" and "tcp" alone will do
  rdma=PROVIDER       ibv uses an RDMA device through rdma-core; iwarp needs nothing but
                      TCP, roce nothing but UDP port 4791; auto takes a device if one
                      leads to the server, else what answers first (default auto)
  rdmadev=NAME        RDMA device to use, as rdmafs devices names it (implies rdma=ibv)
  reg=window|region   keys for the server, with rdma=ibv: windows show it the bytes of a
                      call while it lasts, region all buffers while connected (default
                      window, where the device has them)
  srcaddr=ADDRESS     address of this host to connect from; with rdma=roce each mount
                      needs one of its own (default: the route's)
  port=N              NFS port (default 2049 for tcp; for rdma 20049, and if nothing is
                      there, what rpcbind has registered for the netid rdma or rdma6)
  mountport=N         port of the MOUNT service (default: ask rpcbind on port 111)
  vers=3, nfsvers=3   NFS version
  rsize=N, wsize=N    largest read and write in bytes (default: what the server prefers)
  timeo=N             tenths of a second to wait for a reply (default 600)
  retrans=N           resends before a soft mount gives up (default 2)
  hard, soft          wait for a server for ever (default), or fail with EIO
  nconnect=N          connections to the server, 1 to 16 (default 1)
  noddp               no direct placement: data travels inline, by Position-Zero
                      call or by reply chunk
  crc                 ask for CRC32C on iWARP frames
  inline=N            inline threshold in bytes, 1024 to 65536 (default 4096)
  rdmavers=1|2|auto   version of RPC-over-RDMA (default 1); 2 and auto begin in version 2 and
                      go on in version 1 where the server has no other, which 2 warns of
  msgp=ALIGN:THRESHOLD
                      send calls with inline data of THRESHOLD bytes (512 at least) or more
                      as RDMA_MSGP, padded so that the data starts at a multiple of ALIGN
                      (2 to 4096); given up at servers that refuse it, as Linux does
  ccp                 tell each other's sizes by the Connection Configuration Protocol,
                      with the first call on each connection
  readread            offer no memory for replies: the server opens its own, and data is
                      fetched from there; for servers of RFC 5666 that can do so
  ro, rw              read-only, or not (default)
  allow_other         let other users in; the server decides who may walk where
  default_permissions
                      the kernel checks mode bits, and asks less: for servers without access
                      control lists
  acregmin=N acregmax=N acdirmin=N acdirmax=N actimeo=N
                      seconds that attributes are believed (default 3 60 30 60)
  noac                never believe cached attributes, write synchronously
  nolock, local_lock=all
                      locks are local to this mount (always so with vers=3)
  sec=sys, mountproto=tcp, mountvers=3, lookupcache=all, cto, fg, intr, nointr
                      taken from nfs(5); they change nothing
Words for mount(8) and fstab(5) (defaults, _netdev, auto, noauto, user, users, owner,
nofail, x-*, comment=…) are ignored; exec, noexec, suid, nosuid, dev, nodev, atime,
noatime, relatime, sync, async, dirsync are handed to the mount; remount, bg and lock are
refused.`

// optionFunc takes one option; hasValue tells "word=" from "word".
type optionFunc func(o *options, value string, hasValue bool) error

func flagOption(set func(*options)) optionFunc {
	return func(o *options, v string, has bool) error {
		if has {
			return fmt.Errorf("takes no value")
		}
		set(o)
		return nil
	}
}

func intOption(low, high int, set func(*options, int)) optionFunc {
	return func(o *options, v string, has bool) error {
		n, err := strconv.Atoi(v)
		if !has || err != nil || n < low || n > high {
			return fmt.Errorf("wants a number from %d to %d", low, high)
		}
		set(o, n)
		return nil
	}
}

func wordOption(words []string, set func(*options, string)) optionFunc {
	return func(o *options, v string, has bool) error {
		if !has || !slices.Contains(words, v) {
			return fmt.Errorf("wants one of %s", strings.Join(words, ", "))
		}
		set(o, v)
		return nil
	}
}

// refused is for words that are known elsewhere, with what to do instead.
func refused(why string) optionFunc {
	return func(*options, string, bool) error { return errors.New(why) }
}

// version3 takes the one version of NFS.
func version3(o *options, v string, has bool) error {
	if !has || v != "3" && v != "3.0" {
		return errors.New("rdmafs speaks NFS version 3 only (vers=3, which the server must offer)")
	}
	o.vers = "3"
	return nil
}

func ignored(*options, string, bool) error { return nil }

func fuseOption(word string) optionFunc {
	return flagOption(func(o *options) { o.fuse = append(o.fuse, word) })
}

const maxSeconds = 10 * 365 * 24 * 3600

func secondsOption(set func(*options, time.Duration)) optionFunc {
	return intOption(0, maxSeconds, func(o *options, n int) { set(o, time.Duration(n)*time.Second) })
}

var optionTable = map[string]optionFunc{
	"proto":     wordOption([]string{"rdma", "tcp"}, func(o *options, v string) { o.proto = v }),
	"rdma":      rdmaOption,
	"tcp":       flagOption(func(o *options) { o.proto = "tcp" }),
	"port":      intOption(0, 65535, func(o *options, n int) { o.port = uint16(n) }),
	"mountport": intOption(0, 65535, func(o *options, n int) { o.mountPort = uint16(n) }),
	"vers":      version3,
	"nfsvers":   version3,
	"rsize":     intOption(1024, 1<<20, func(o *options, n int) { o.rsize = n }),
	"wsize":     intOption(1024, 1<<20, func(o *options, n int) { o.wsize = n }),
	"timeo":     intOption(1, 36000, func(o *options, n int) { o.timeo = time.Duration(n) * 100 * time.Millisecond }),
	"retrans":   intOption(0, 1000, func(o *options, n int) { o.retrans = n }),
	"hard":      flagOption(func(o *options) { o.soft = false }),
	"soft":      flagOption(func(o *options) { o.soft = true }),
	"nconnect":  intOption(1, 16, func(o *options, n int) { o.nconnect = n }),
	"noddp":     flagOption(func(o *options) { o.noDDP = true }),
	"crc":       flagOption(func(o *options) { o.crc = true }),
	"inline":    intOption(1024, 65536, func(o *options, n int) { o.inline = n }),
	"rdmavers":  wordOption([]string{"1", "2", "auto"}, func(o *options, v string) { o.rdmaVers = v }),
	"msgp":      msgpOption,
	"ccp":       flagOption(func(o *options) { o.ccp = true }),
	"readread":  flagOption(func(o *options) { o.readRead = true }),
	"rdmadev":   rdmaDevOption,
	"srcaddr":   srcAddrOption,
	"reg":       wordOption([]string{"window", "region"}, func(o *options, v string) { o.reg = v }),
	"ro":        flagOption(func(o *options) { o.readOnly = true }),
	"rw":        flagOption(func(o *options) { o.readOnly = false }),

	"allow_other":         flagOption(func(o *options) { o.allowOther = true }),
	"default_permissions": flagOption(func(o *options) { o.defaultPermissions = true }),

	"acregmin": secondsOption(func(o *options, d time.Duration) { o.acRegMin = d }),
	"acregmax": secondsOption(func(o *options, d time.Duration) { o.acRegMax = d }),
	"acdirmin": secondsOption(func(o *options, d time.Duration) { o.acDirMin = d }),
	"acdirmax": secondsOption(func(o *options, d time.Duration) { o.acDirMax = d }),
	"actimeo": secondsOption(func(o *options, d time.Duration) {
		o.acRegMin, o.acRegMax, o.acDirMin, o.acDirMax = d, d, d, d
	}),
	"ac":   flagOption(func(o *options) { o.noAC = false }),
	"noac": flagOption(func(o *options) { o.noAC = true }),

	// Words of nfs(5) that say what is so anyway.
	"sec":         wordOption([]string{"sys"}, func(*options, string) {}),
	"mountproto":  wordOption([]string{"tcp"}, func(*options, string) {}),
	"mountvers":   wordOption([]string{"3"}, func(*options, string) {}),
	"lookupcache": wordOption([]string{"all"}, func(*options, string) {}),
	"cto":         flagOption(func(*options) {}),
	"intr":        ignored,
	"nointr":      ignored,
	"fg":          ignored,

	"nolock":     flagOption(func(*options) {}),
	"local_lock": wordOption([]string{"all"}, func(*options, string) {}),

	"remount": refused("a mount cannot be changed: unmount it (rdmafs umount MOUNTPOINT) and mount it with the new options"),
	"bg":      refused("a mount is not tried in the background (fstab: nofail,x-systemd.automount mounts on first use)"),
	"lock":    refused("locks are not sent to the server, they are local to the mount (nolock)"),

	"defaults": ignored, "_netdev": ignored, "auto": ignored, "noauto": ignored, "user": ignored,
	"users": ignored, "owner": ignored, "group": ignored, "nouser": ignored, "nofail": ignored,
	"comment": ignored,

	"exec": fuseOption("exec"), "noexec": fuseOption("noexec"), "suid": fuseOption("suid"),
	"nosuid": fuseOption("nosuid"), "dev": fuseOption("dev"), "nodev": fuseOption("nodev"),
	"atime": fuseOption("atime"), "noatime": fuseOption("noatime"), "relatime": fuseOption("relatime"),
	"sync": fuseOption("sync"), "async": fuseOption("async"), "dirsync": fuseOption("dirsync"),
}

// rdmaOption is proto=rdma when alone, and the provider with a value.
func rdmaOption(o *options, v string, has bool) error {
	if !has {
		o.proto = "rdma"
		return nil
	}
	names := append([]string{"auto"}, providerNames()...)
	return wordOption(names, func(o *options, v string) { o.rdma = v })(o, v, true)
}

// msgpOption takes ALIGN:THRESHOLD.
func msgpOption(o *options, v string, has bool) error {
	a, t, both := strings.Cut(v, ":")
	align, errA := strconv.Atoi(a)
	threshold, errT := strconv.Atoi(t)
	if !both || errA != nil || errT != nil || align < 2 || align > 4096 || threshold < 512 || threshold > 65536 {
		return fmt.Errorf("wants ALIGN:THRESHOLD, from 2 to 4096 and from 512 to 65536")
	}
	o.padAlign, o.padThreshold = align, threshold
	return nil
}

// rdmaDevOption takes the name of a device, which only one provider has.
func rdmaDevOption(o *options, v string, has bool) error {
	if !has || v == "" {
		return fmt.Errorf("wants the name of an RDMA device")
	}
	o.rdmaDev, o.rdma = v, "ibv"
	return nil
}

func srcAddrOption(o *options, v string, has bool) error {
	a, err := netip.ParseAddr(v)
	if !has || err != nil || a.IsUnspecified() {
		return fmt.Errorf("wants an IP address of this machine")
	}
	o.srcAddr = a.Unmap()
	return nil
}

// parseOptions reads what stood behind one or more -o. Later words win.
func parseOptions(words []string) (options, error) {
	o := defaultOptions()
	for _, list := range words {
		for word := range strings.SplitSeq(list, ",") {
			if word == "" {
				continue
			}
			name, value, has := strings.Cut(word, "=")
			take := optionTable[name]
			if take == nil && strings.HasPrefix(name, "x-") {
				continue
			}
			if take == nil {
				return o, fmt.Errorf("unknown mount option %q (rdmafs mount --help lists the known ones)", name)
			}
			if err := take(&o, value, has); err != nil {
				return o, fmt.Errorf("mount option %q: %v", word, err)
			}
		}
	}
	if o.acRegMin > o.acRegMax || o.acDirMin > o.acDirMax {
		return o, fmt.Errorf("mount options: acregmin and acdirmin may not exceed acregmax and acdirmax")
	}
	return o, nil
}
