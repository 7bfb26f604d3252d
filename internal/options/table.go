package options

import (
	"net/netip"
	"time"
)

// Kind is what becomes of an option.
type Kind int

const (
	// Effective options change the mount.
	Effective Kind = iota
	// Inert options are of nfs(5) and say what is so anyway.
	Inert
	// Ignored options are for mount(8) and fstab(5).
	Ignored
	// Passed options are handed to the kernel with the FUSE mount.
	Passed
	// Refused options are known elsewhere. Their Meaning says what to do instead.
	Refused
)

// Option is a row of the table.
type Option struct {
	Name string
	// Value stands behind the equals sign; "" for a word alone.
	Value string
	// Default is what holds without the option, "" where that is that the option
	// is not in force.
	Default string
	// Meaning is part of a sentence. Neighbours with the same Meaning share a line
	// of --help.
	Meaning string
	// Detail is what docs/options.md says in place of Meaning, if not "".
	Detail string
	// NFS is the counterpart in nfs(5), or in the manual page that it names; ""
	// if there is none.
	NFS string

	Kind Kind
	set  setter
}

// Providers are the providers of RDMA that rdma= can name.
var Providers = []string{"ibv", "iwarp", "roce"}

const (
	same = "the same" // of Option.NFS

	attributesMeaning = "seconds that cached attributes are used before they are revalidated: the least and the most, of files (reg) and of directories (dir)"
	protoMeaning      = "the same as proto= with this value"
	inertMeaning      = "taken from nfs(5); they change nothing"
)

// Table has every option, in the order of --help.
var Table = []Option{
	{Name: "proto", Value: "rdma|rdma6|tcp|tcp6", Default: "rdma", Meaning: `how calls travel, with 6 over IPv6 alone; "rdma" and the others alone will do`,
		NFS: "the same, with port 20049 for rdma, and no udp; without 6 over either", set: proto},
	{Name: "tcp", Meaning: protoMeaning, NFS: same, set: protoWord("tcp")},
	{Name: "tcp6", Meaning: protoMeaning, NFS: same, set: protoWord("tcp6")},
	{Name: "rdma6", Meaning: protoMeaning, NFS: same, set: protoWord("rdma6")},
	{Name: "rdma", Value: "PROVIDER", Default: "auto", Meaning: "ibv uses an RDMA device through rdma-core; iwarp needs nothing but TCP, roce nothing but UDP port 4791; " +
		"auto takes a device if one leads to the server, else what answers first; alone it is the same as proto=rdma", NFS: "the same when alone", set: rdma},
	{Name: "rdmadev", Value: "NAME", Default: "the one on the route", Meaning: "RDMA device to use, as rdmafs devices names it (implies rdma=ibv)", set: rdmaDev},
	{Name: "reg", Value: "window|region", Default: "window, where the device has them", Meaning: "keys for the server, with rdma=ibv: windows show it the bytes of a call while it lasts, " +
		"region all buffers while connected",
		set: oneOf([]string{"window", "region"}, func(o *Options, v string) { o.Reg = v })},
	{Name: "srcaddr", Value: "ADDRESS", Default: "the route's", Meaning: "address of this host to connect from; with rdma=roce each mount needs one of its own", NFS: "clientaddr=, in part", set: srcAddr},
	{Name: "addr", Value: "ADDRESS", Default: "what the server's name leads to", Meaning: "address of the server", NFS: same, set: address(func(o *Options, a netip.Addr) { o.Addr = a })},
	{Name: "resvport", Default: "yes", Meaning: "connect by TCP from ports below 1024 where this process may; RDMA knows no such thing", NFS: same, set: flag(func(o *Options) { o.NoResvPort = false })},
	{Name: "noresvport", Meaning: "connect from any port: the export must have the option insecure", NFS: same, set: flag(func(o *Options) { o.NoResvPort = true })},
	{Name: "xprtsec", Value: "none|tls|mtls", Default: "none", Meaning: "encrypt NFS by TLS (RFC 9289), with proto=tcp; mtls shows the server a certificate of this client, too. A server without TLS is not mounted", Detail: "with tls NFS travels inside TLS 1.3 (RFC 9289), by proto=tcp, to a server whose certificate is for the name or address that is mounted; with mtls a certificate of this client is shown, too. A server without TLS, or with another certificate, is an error. MOUNT, NLM and rpcbind of version 3 stay in clear text: docs/security.md", NFS: "the same; the server's name is taken as it was typed",
		set: oneOf([]string{"none", "tls", "mtls"}, func(o *Options, v string) { o.XprtSec = v })},
	{Name: "xprtsec_ca", Value: "PATH", Default: "x509.truststore of /etc/tlshd.conf, or the authorities that this host trusts", Meaning: "PEM file with the authorities that may sign the server's certificate", NFS: "x509.truststore of tlshd.conf(5)",
		set: file(func(o *Options, v string) { o.XprtCA = v })},
	{Name: "xprtsec_cert", Value: "PATH", Default: "x509.certificate of /etc/tlshd.conf", Meaning: "PEM file with this client's certificate for mtls; read again for each connection, like the others", NFS: "x509.certificate of tlshd.conf(5)",
		set: file(func(o *Options, v string) { o.XprtCert = v })},
	{Name: "xprtsec_key", Value: "PATH", Default: "x509.private_key of /etc/tlshd.conf", Meaning: "PEM file with its private key", NFS: "x509.private_key of tlshd.conf(5)",
		set: file(func(o *Options, v string) { o.XprtKey = v })},
	{Name: "port", Value: "N", Default: "2049 for tcp; for rdma 20049, and if nothing is there, what rpcbind has registered for the netid rdma or rdma6",
		Meaning: "NFS port", NFS: same, set: number(0, 65535, func(o *Options, n int) { o.Port = uint16(n) })},
	{Name: "mountport", Value: "N", Default: "ask rpcbind on port 111", Meaning: "port of the MOUNT service", NFS: same,
		set: number(0, 65535, func(o *Options, n int) { o.MountPort = uint16(n) })},
	{Name: "mounthost", Value: "HOST", Default: "the server", Meaning: "who is asked for the MOUNT service, by name or address", NFS: same, set: text("a name or an address", func(o *Options, v string) { o.MountHost = v })},
	{Name: "mountaddr", Value: "ADDRESS", Default: "the server's", Meaning: "the same by address", NFS: "of /proc/mounts", set: address(func(o *Options, a netip.Addr) { o.MountHost = a.String() })},
	{Name: "nlmport", Value: "N", Default: "ask rpcbind on port 111, and again whenever it must be connected to anew", Meaning: "port of the lock manager (NLM)",
		set: number(0, 65535, func(o *Options, n int) { o.NLMPort = uint16(n) })},
	{Name: "vers", Value: "3|4|4.1|4.2|auto", Default: versDefault, Meaning: versMeaning, Detail: versDetail, NFS: versNFS, set: vers},
	{Name: "nfsvers", Value: "3|4|4.1|4.2|auto", Default: versDefault, Meaning: versMeaning, Detail: versDetail, NFS: versNFS, set: vers},
	{Name: "v3", Meaning: "the same as vers=3", NFS: same, set: versWord("3")},
	{Name: "v4", Meaning: "the same as vers=4", NFS: same, set: versWord("4")},
	{Name: "v4.1", Meaning: "the same as vers=4.1", NFS: same, set: versWord("4.1")},
	{Name: "v4.2", Meaning: "the same as vers=4.2", NFS: same, set: versWord("4.2")},
	{Name: "minorversion", Value: "1|2", Meaning: "completes vers=4, behind which it stands", NFS: same, set: minorVersion},
	{Name: "rsize", Value: "N", Default: "what the server prefers", Meaning: "largest READ in bytes, a multiple of 1024 up to 1048576; what is not is taken as nfs(5) has it", NFS: same,
		set: block("rsize", func(o *Options, n int) { o.RSize = n })},
	{Name: "wsize", Value: "N", Default: "what the server prefers", Meaning: "largest WRITE in bytes, likewise", NFS: same,
		set: block("wsize", func(o *Options, n int) { o.WSize = n })},
	{Name: "timeo", Value: "N", Default: "600", Meaning: "tenths of a second to wait for a reply", NFS: same,
		set: clamped("timeo", 1, 36000, func(o *Options, n int) { o.Timeo = time.Duration(n) * 100 * time.Millisecond })},
	{Name: "retrans", Value: "N", Default: "2", Meaning: "resends before a soft mount gives up", NFS: same,
		set: clamped("retrans", 0, 1000, func(o *Options, n int) { o.Retrans = n })},
	{Name: "hard", Default: "yes", Meaning: "wait for the server without end", NFS: same, set: flag(func(o *Options) { o.Soft = false })},
	{Name: "soft", Meaning: "fail with EIO when the server has not replied to retrans resends", NFS: same, set: flag(func(o *Options) { o.Soft, o.SoftErr = true, false })},
	{Name: "softerr", Meaning: "the same, with ETIMEDOUT", NFS: same, set: flag(func(o *Options) { o.Soft, o.SoftErr = true, true })},
	{Name: "softreval", Meaning: "while the server does not answer, names and attributes that are cached are used beyond their time, so that paths can be walked",
		Detail: "names, attributes and rights that are cached are used beyond their time when the server has not replied to retrans resends, so that a path can be walked, looked at and left; data, changes, `open` and listings follow hard or soft as ever", NFS: same, set: flag(func(o *Options) { o.SoftReval = true })},
	{Name: "nosoftreval", Default: "yes", Meaning: "what is cached is never used beyond its time", NFS: same, set: flag(func(o *Options) { o.SoftReval = false })},
	{Name: "nconnect", Value: "N", Default: "1", Meaning: "connections to the server, 1 to 16; for more, 16 are taken", NFS: same,
		set: clamped("nconnect", 1, 16, func(o *Options, n int) { o.NConnect = n })},
	{Name: "remoteports", Value: "A-B~C|dns", Meaning: "addresses of the server, ranges and single ones, that the nconnect connections are spread over; dns: all of the server's name",
		Detail: "addresses of the server that the nconnect connections are spread over: ranges `A-B` (of 256 at most) and single ones, with `~` between, all on one port, or `dns` for all that the server's name has. Each connection goes to the address with the fewest, and after a loss not to one that has just failed. MOUNT and NLM are asked for at the first that answers",
		NFS:    "remoteports of VAST's guide", set: remotePorts},
	{Name: "localports", Value: "A-B~C", Meaning: "addresses of this host that they are made from, likewise", NFS: "localports of VAST's guide", set: ports("addresses of this host", func(o *Options, all []netip.Addr) { o.LocalPorts = all })},
	{Name: "noddp", Meaning: "no direct data placement: data travels inline, by Position-Zero call or by reply chunk", set: flag(func(o *Options) { o.NoDDP = true })},
	{Name: "crc", Meaning: "ask for CRC32C on iWARP frames", set: flag(func(o *Options) { o.CRC = true })},
	{Name: "inline", Value: "N", Default: "8192", Meaning: "inline threshold in bytes, 1024 to 65536; a WRITE or READ of 4 KiB travels inline where client and server have 8192, while Linux servers have 4096 unless told otherwise", set: number(1024, 65536, func(o *Options, n int) { o.Inline = n })},
	{Name: "rdmavers", Value: "1|2|auto", Default: "1", Meaning: "version of RPC-over-RDMA; 2 and auto begin in version 2 and go on in version 1 where the server has no other, " +
		"which 2 warns of", set: oneOf([]string{"1", "2", "auto"}, func(o *Options, v string) { o.RDMAVers = v })},
	{Name: "msgp", Value: "ALIGN:THRESHOLD", Meaning: "send calls with inline data of THRESHOLD bytes (512 at least) or more as RDMA_MSGP, padded so that the data starts " +
		"at a multiple of ALIGN (2 to 4096); given up at servers that refuse it, as Linux does", set: msgp},
	{Name: "ccp", Meaning: "tell each other's sizes by the Connection Configuration Protocol, with the first call on each connection", set: flag(func(o *Options) { o.CCP = true })},
	{Name: "readread", Meaning: "offer no memory for replies: the server opens its own, and data is fetched from there; for servers of RFC 5666 that can do so",
		set: flag(func(o *Options) { o.ReadRead = true })},
	{Name: "sec", Value: "sys|krb5|krb5i|krb5p", Default: "sys, and where the server does not take that, the first it names of the others", Meaning: "how the server knows who calls: by this host's word (sys), or by Kerberos tickets (krb5); " +
		"krb5i also keeps calls and data from being changed on their way, and krb5p from being read", NFS: same, set: sec},
	{Name: "krb5_keytab", Value: "PATH", Default: "the one of krb5.conf, for root", Meaning: "keytab by which the mounting user, or this machine, is known to the server", NFS: "rpc.gssd -k", set: keytab},
	{Name: "krb5_principal", Value: "NAME", Default: "for keytabs that of this machine, as rpc.gssd chooses it", Meaning: "who the mounting user is there, with or without @REALM", set: text("a principal", func(o *Options, v string) { o.Principal = v })},
	{Name: "krb5_ccache", Value: "NAME", Default: "KRB5CCNAME of the mounting user; of others what krb5.conf says, and /tmp/krb5cc_UID", Meaning: "cache of the mounting user's tickets (FILE:PATH, DIR:PATH, KEYRING:NAME or KCM:NAME), or, with %{uid} in it, of each user's",
		set: ccache},
	{Name: "ro", Meaning: "mount read-only", NFS: "ro of mount(8)", set: flag(func(o *Options) { o.ReadOnly = true })},
	{Name: "rw", Default: "yes", Meaning: "mount read-write", NFS: "rw of mount(8)", set: flag(func(o *Options) { o.ReadOnly = false })},
	{Name: "allow_other", Meaning: "let other users in; the server decides who may walk where", NFS: "always so", set: flag(func(o *Options) { o.AllowOther = true })},
	{Name: "default_permissions", Meaning: "the kernel checks mode bits, and asks less: for servers without access control lists",
		set: flag(func(o *Options) { o.DefaultPermissions = true })},
	{Name: "auto_unmount", Meaning: "have fusermount3 mount, and unmount when the daemon is killed", Detail: "fusermount3 mounts, also for root, and unmounts when the daemon is killed; without, the mount stays until it is unmounted or mounted again, so that nobody writes to the directory below. Many a fusermount3 does so for ordinary users only with allow_other", NFS: "auto_unmount of mount.fuse3(8)",
		set: flag(func(o *Options) { o.AutoUnmount = true })},
	{Name: "fuse", Value: "dev|ring|auto", Default: "auto", Meaning: "how requests come from the kernel: by reading /dev/fuse, or by io_uring (Linux 6.14, switched on by root); " +
		"auto is dev, as ring is not at least as fast in everything (docs/performance.md)", set: oneOf([]string{"dev", "ring", "auto"}, over)},
	{Name: "acregmin", Value: "N", Default: "3", Meaning: attributesMeaning, Detail: "seconds for which attributes of a file that has just changed are used before they are revalidated", NFS: same, set: seconds(func(o *Options, d time.Duration) { o.AcRegMin = d })},
	{Name: "acregmax", Value: "N", Default: "60", Meaning: attributesMeaning, Detail: "the same of a file that has not changed for long; in between, the time doubles with each revalidation that finds no change", NFS: same, set: seconds(func(o *Options, d time.Duration) { o.AcRegMax = d })},
	{Name: "acdirmin", Value: "N", Default: "30", Meaning: attributesMeaning, Detail: "as acregmin, of directories, and of the names in them", NFS: same, set: seconds(func(o *Options, d time.Duration) { o.AcDirMin = d })},
	{Name: "acdirmax", Value: "N", Default: "60", Meaning: attributesMeaning, Detail: "as acregmax, of directories, and of the names in them", NFS: same, set: seconds(func(o *Options, d time.Duration) { o.AcDirMax = d })},
	{Name: "actimeo", Value: "N", Meaning: "sets all four to one value", NFS: same, set: seconds(func(o *Options, d time.Duration) {
		o.AcRegMin, o.AcRegMax, o.AcDirMin, o.AcDirMax = d, d, d, d
	})},
	{Name: "ac", Default: "yes", Meaning: "use cached attributes for as long", NFS: same, set: flag(func(o *Options) { o.NoAC = false })},
	{Name: "noac", Meaning: "never use cached attributes, write synchronously", NFS: same, set: flag(func(o *Options) { o.NoAC = true })},
	{Name: "lock", Default: "yes", Meaning: "locks are taken at the server (by NLM with version 3), and fail with ENOLCK where it takes none", NFS: same, set: flag(func(o *Options) { o.NoLock = false })},
	{Name: "nolock", Meaning: "locks are local to this mount: other machines, and other mounts of this one, are not told", NFS: same, set: flag(func(o *Options) { o.NoLock = true })},
	{Name: "local_lock", Value: "none|all|flock|posix", Default: "none", Meaning: "which locks are local to this mount all the same: those of flock(2), those of fcntl(2) (posix), or both",
		NFS: same, set: oneOf([]string{"none", "all", "flock", "posix"}, func(o *Options, v string) { o.LocalLock = v })},
	{Name: "fg", Default: "yes", Meaning: "rdmafs mount returns when the mount is usable, or has failed", NFS: same, set: flag(func(o *Options) { o.Background = false })},
	{Name: "bg", Meaning: "if the server cannot be reached, rdmafs mount returns with 0, and goes on trying in the background", NFS: same, set: flag(func(o *Options) { o.Background = true })},
	{Name: "retry", Value: "MINUTES", Default: "2, and 10000 with bg", Meaning: "for how long rdmafs mount tries again a server that cannot be reached; 0 for not at all",
		Detail: "for how long `rdmafs mount` tries again a server that refuses connections or does not answer, after 1, 2, 4, 8 seconds and then every 10; 0 for not at all. With xprtsec= also one that ends the connection in the TLS handshake, with sec=krb5 a KDC that does not answer; and if retry= or bg is given a server that offers no TLS yet, and certificates, keytabs and tickets that are not there yet. `rdmafs doctor`, `rdmafs bench` and the Go package try once", NFS: same,
		set: number(0, maxRetry, func(o *Options, n int) { o.Retry = time.Duration(n) * time.Minute })},
	{Name: "acl", Default: "yes", Meaning: "use the server's access control lists, if it has them (NFSACL)", NFS: same, set: flag(func(o *Options) { o.NoACL = false })},
	{Name: "noacl", Meaning: "do without access control lists and extended attributes, which spares a FUSE request or two a file", NFS: same, set: flag(func(o *Options) { o.NoACL = true })},
	{Name: "debug", Meaning: "log more, as with -d, and each FUSE request", NFS: "debug of mount.fuse3(8)", set: flag(func(o *Options) { o.Debug = true })},
	{Name: "nodebug", Default: "yes", Meaning: "log what somebody should know", set: flag(func(o *Options) { o.Debug = false })},
	{Name: "remount", Meaning: "change a mount that is there by the other options: ro, rw, soft, hard, timeo=, retrans=, ac and noac with their times, debug, nodebug, " +
		"and what the kernel takes, such as nosuid; the rest stays as it is", NFS: "remount of mount(8), for ro and rw",
		set: refused("is for rdmafs mount, which changes a mount that is there")},

	{Name: "log", Value: "error|warn|info|debug", Default: "info", Meaning: "the least that is logged; rdmafs log MOUNTPOINT LEVEL changes it", set: oneOf(LogLevels, func(o *Options, v string) { o.Log = v })},
	{Name: "logfile", Value: "PATH", Meaning: "log to the end of this file instead of journald or syslog", set: file(func(o *Options, v string) { o.LogFile = v })},
	{Name: "logformat", Value: "text|json", Default: "text", Meaning: "how lines are logged: json is an object each, with time, level, msg and mount", set: oneOf([]string{"text", "json"}, func(o *Options, v string) { o.LogFormat = v })},
	{Name: "slow", Value: "DURATION", Meaning: "log each call that takes as long or longer (500ms, 2s): path, process, procedure, and where the time went", set: slow},
	{Name: "metrics", Value: "ADDR|unix:PATH", Meaning: "serve Prometheus metrics there: :PORT is the loopback address, unix: a socket of this user alone", set: metrics},
	{Name: "pprof", Value: "unix:PATH", Meaning: "serve profiles of the daemon (net/http/pprof) on a socket of this user alone", set: pprof},
	{Name: "rdirplus", Default: "yes", Meaning: "list directories with the attributes of what is in them (READDIRPLUS), where the server can", NFS: same + "; force and none, too", set: readDirPlus},
	{Name: "forcerdirplus", Meaning: "the same as rdirplus, which is for every listing", NFS: "rdirplus=force", set: flag(func(o *Options) { o.NoReadDirPlus = false })},
	{Name: "nordirplus", Meaning: "list directories by names alone (READDIR): for servers where READDIRPLUS is slow and names are all that is wanted", NFS: same, set: flag(func(o *Options) { o.NoReadDirPlus = true })},
	{Name: "cto", Default: "yes", Meaning: "close-to-open: an open asks the server whether the file has changed", NFS: same, set: flag(func(o *Options) { o.NoCTO = false })},
	{Name: "nocto", Meaning: "an open asks only if what is cached of the file is older than ac*min and ac*max allow: changes of other machines are seen later", NFS: same, set: flag(func(o *Options) { o.NoCTO = true })},
	{Name: "lookupcache", Value: "all|pos|positive|none", Default: "all", Meaning: "which names are cached: all, those that exist (pos), none", NFS: same, set: lookupCache},
	{Name: "fsname", Value: "NAME", Default: "SERVER:/EXPORT", Meaning: "what the mount table shows as the source", NFS: "fsname of mount.fuse3(8)", set: text("a name", func(o *Options, v string) { o.FSName = v })},
	{Name: "sloppy", Meaning: "ignore options that are not in this table", NFS: same, set: flag(func(o *Options) { o.Sloppy = true })},

	{Name: "mountproto", Value: "tcp|tcp6", Default: "tcp", Kind: Inert, Meaning: inertMeaning, Detail: "MOUNT travels over TCP, over the IP of the server's address; without vers= it means version 3", NFS: same, set: oneOf([]string{"tcp", "tcp6"}, func(*Options, string) {})},
	{Name: "mountvers", Value: "3", Default: "3", Kind: Inert, Meaning: inertMeaning, Detail: "version of MOUNT; without vers= it means version 3 of NFS", NFS: same, set: only("3")},
	{Name: "intr", Kind: Inert, Meaning: inertMeaning, Detail: "only a signal that kills a process ends its waiting for the server", NFS: same, set: ignored},
	{Name: "nointr", Kind: Inert, Meaning: inertMeaning, Detail: "the same as intr", NFS: same, set: ignored},

	inert("nofsc", "nothing is cached on a disk of this host", ignoreWord),
	inert("nosharecache", "each mount has a cache of its own", ignoreWord),
	inert("sharecache", "the same as nosharecache: a mount shares with no other", ignoreWord),
	inert("nodiratime", "the server keeps the access times of directories", ignoreWord),
	inert("diratime", "the same as nodiratime", ignoreWord),
	inert("noposix", "what can be asked of a path is what PATHCONF says", ignoreWord),
	inert("posix", "the same as noposix", ignoreWord),
	inert("nomigration", "a file system that has moved to another server is not followed there", ignoreWord),
	inert("notrunkdiscovery", "further addresses of the server are not looked for", ignoreWord),
	inert("noalignwrite", "what is written is sent as it was written", ignoreWord),
	{Name: "spread_reads", Kind: Inert, Meaning: inertMeaning, Detail: "each call takes the connection with the fewest calls, those of one file too", NFS: "spread_reads of VAST's guide", set: ignoreWord},
	{Name: "spread_writes", Kind: Inert, Meaning: inertMeaning, Detail: "the same as spread_reads", NFS: "spread_writes of VAST's guide", set: ignoreWord},
	inert("noidlexprt", "connections stay when nothing is sent", ignoreWord),
	{Name: "namlen", Value: "N", Kind: Inert, Meaning: inertMeaning, Detail: "how long names may be, up to 255, the server says", NFS: same, set: numberOnly(0, 255)},
	{Name: "max_connect", Value: "N", Kind: Inert, Meaning: inertMeaning, Detail: "how many addresses of a server NFSv4.1 uses at most; here it is one, or those of remoteports=", NFS: same, set: numberOnly(1, 16)},
	{Name: "clientaddr", Value: "ADDRESS", Kind: Inert, Meaning: inertMeaning, Detail: "where servers of NFSv4.0 call back; srcaddr= is the address to connect from", NFS: same, set: address(func(*Options, netip.Addr) {})},
	{Name: "subtype", Value: "rdmafs", Default: "rdmafs", Kind: Inert, Meaning: inertMeaning, Detail: "the type in the mount table is fuse.rdmafs, by which rdmafs umount knows it", NFS: "subtype of mount.fuse3(8)", set: only("rdmafs")},

	forMount("defaults"), forMount("_netdev"), forMount("auto"), forMount("noauto"), forMount("user"), forMount("nouser"),
	forMount("users"), forMount("owner"), forMount("group"), forMount("nofail"), forMount("comment"), forMount("noowner"), forMount("nogroup"), forMount("nousers"), forMount("silent"), forMount("loud"),

	forKernel("exec"), forKernel("noexec"), forKernel("suid"), forKernel("nosuid"), forKernel("dev"), forKernel("nodev"),
	forKernel("atime"), forKernel("noatime"), forKernel("relatime"), forKernel("sync"), forKernel("async"), forKernel("dirsync"),

	unavailable("v2", "nfs(5)", noVersion),
	unavailable("v4.0", "nfs(5)", noVersion),
	unavailable("migration", "nfs(5)", noMigration),
	unavailable("trunkdiscovery", "nfs(5)", noTrunks),
	unavailable("udp", "nfs(5)", noUDP),
	unavailable("udp6", "nfs(5)", noUDP),
	unavailable("fsc", "nfs(5)", "there is no cache on a disk (FS-Cache); leave it out"),
	unavailable("write", "nfs(5)", "when what was written is sent is decided by how much there is of it (fsync(2), O_SYNC and sync make it at once); leave it out"),
	unavailable("fatal_neterrors", "nfs(5)", "a connection that fails is made anew, whatever the error; leave it out"),
	unavailable("cert_serial", "nfs(5)", "certificates are in files, not in keyrings of the kernel: xprtsec_cert= and xprtsec_key="),
	unavailable("privkey_serial", "nfs(5)", "certificates are in files, not in keyrings of the kernel: xprtsec_cert= and xprtsec_key="),
	unavailable("alignwrite", "nfs(5)", "the kernel chooses how it writes; leave it out"),
	unavailable("context", "mount(8)", "a FUSE mount takes its SELinux context from the policy for type fuse; leave it out"),
	unavailable("fscontext", "mount(8)", "a FUSE mount takes its SELinux context from the policy for type fuse; leave it out"),
	unavailable("defcontext", "mount(8)", "a FUSE mount takes its SELinux context from the policy for type fuse; leave it out"),
	unavailable("rootcontext", "mount(8)", "a FUSE mount takes its SELinux context from the policy for type fuse; leave it out"),
	unavailable("seclabel", "mount(8)", "a FUSE mount takes its SELinux context from the policy for type fuse; leave it out"),
	unavailable("iversion", "mount(8)", "the kernel keeps no such thing for a FUSE mount, and the server its own times; leave it out"),
	unavailable("noiversion", "mount(8)", "the kernel keeps no such thing for a FUSE mount, and the server its own times; leave it out"),
	unavailable("lazytime", "mount(8)", "the kernel keeps no such thing for a FUSE mount, and the server its own times; leave it out"),
	unavailable("nolazytime", "mount(8)", "the kernel keeps no such thing for a FUSE mount, and the server its own times; leave it out"),
	unavailable("strictatime", "mount(8)", "the kernel keeps no such thing for a FUSE mount, and the server its own times; leave it out"),
	unavailable("nostrictatime", "mount(8)", "the kernel keeps no such thing for a FUSE mount, and the server its own times; leave it out"),
	unavailable("norelatime", "mount(8)", "the kernel keeps no such thing for a FUSE mount, and the server its own times; leave it out"),
	unavailable("mand", "mount(8)", "the kernel keeps no such thing for a FUSE mount, and the server its own times; leave it out"),
	unavailable("nomand", "mount(8)", "the kernel keeps no such thing for a FUSE mount, and the server its own times; leave it out"),
	unavailable("bind", "mount(8)", "mount(8) does it itself, without naming a type (mount --bind, --move, --make-shared …)"),
	unavailable("rbind", "mount(8)", "mount(8) does it itself, without naming a type (mount --bind, --move, --make-shared …)"),
	unavailable("move", "mount(8)", "mount(8) does it itself, without naming a type (mount --bind, --move, --make-shared …)"),
	unavailable("shared", "mount(8)", "mount(8) does it itself, without naming a type (mount --bind, --move, --make-shared …)"),
	unavailable("rshared", "mount(8)", "mount(8) does it itself, without naming a type (mount --bind, --move, --make-shared …)"),
	unavailable("private", "mount(8)", "mount(8) does it itself, without naming a type (mount --bind, --move, --make-shared …)"),
	unavailable("rprivate", "mount(8)", "mount(8) does it itself, without naming a type (mount --bind, --move, --make-shared …)"),
	unavailable("slave", "mount(8)", "mount(8) does it itself, without naming a type (mount --bind, --move, --make-shared …)"),
	unavailable("rslave", "mount(8)", "mount(8) does it itself, without naming a type (mount --bind, --move, --make-shared …)"),
	unavailable("unbindable", "mount(8)", "mount(8) does it itself, without naming a type (mount --bind, --move, --make-shared …)"),
	unavailable("runbindable", "mount(8)", "mount(8) does it itself, without naming a type (mount --bind, --move, --make-shared …)"),
	unavailable("quota", "mount(8)", "the server keeps quotas; leave it out"),
	unavailable("noquota", "mount(8)", "the server keeps quotas; leave it out"),
	unavailable("usrquota", "mount(8)", "the server keeps quotas; leave it out"),
	unavailable("grpquota", "mount(8)", "the server keeps quotas; leave it out"),
	unavailable("loop", "mount(8)", "rdmafs mounts no image and no device; leave it out"),
	unavailable("offset", "mount(8)", "rdmafs mounts no image and no device; leave it out"),
	unavailable("sizelimit", "mount(8)", "rdmafs mounts no image and no device; leave it out"),
	unavailable("blksize", "mount(8)", "rdmafs mounts no image and no device; leave it out"),
	unavailable("blkdev", "mount(8)", "rdmafs mounts no image and no device; leave it out"),
	unavailable("fd", "mount(8)", "rdmafs mounts no image and no device; leave it out"),
	unavailable("rootmode", "mount(8)", "rdmafs mounts no image and no device; leave it out"),
	unavailable("user_id", "mount(8)", "rdmafs mounts no image and no device; leave it out"),
	unavailable("group_id", "mount(8)", "rdmafs mounts no image and no device; leave it out"),
	unavailable("uid", "mount(8)", "owners and modes are the server's; leave it out (squashing is set up in the export)"),
	unavailable("gid", "mount(8)", "owners and modes are the server's; leave it out (squashing is set up in the export)"),
	unavailable("umask", "mount(8)", "owners and modes are the server's; leave it out (squashing is set up in the export)"),
	unavailable("dmask", "mount(8)", "owners and modes are the server's; leave it out (squashing is set up in the export)"),
	unavailable("fmask", "mount(8)", "owners and modes are the server's; leave it out (squashing is set up in the export)"),
	unavailable("mode", "mount(8)", "owners and modes are the server's; leave it out (squashing is set up in the export)"),
	unavailable("allow_root", "mount.fuse3(8)", "allow_other lets others in, and the server decides who may do what"),
	unavailable("kernel_cache", "mount.fuse3(8)", "caching follows nfs(5): acregmin, acregmax, acdirmin, acdirmax, noac, lookupcache"),
	unavailable("auto_cache", "mount.fuse3(8)", "caching follows nfs(5): acregmin, acregmax, acdirmin, acdirmax, noac, lookupcache"),
	unavailable("noauto_cache", "mount.fuse3(8)", "caching follows nfs(5): acregmin, acregmax, acdirmin, acdirmax, noac, lookupcache"),
	unavailable("entry_timeout", "mount.fuse3(8)", "caching follows nfs(5): acregmin, acregmax, acdirmin, acdirmax, noac, lookupcache"),
	unavailable("negative_timeout", "mount.fuse3(8)", "caching follows nfs(5): acregmin, acregmax, acdirmin, acdirmax, noac, lookupcache"),
	unavailable("attr_timeout", "mount.fuse3(8)", "caching follows nfs(5): acregmin, acregmax, acdirmin, acdirmax, noac, lookupcache"),
	unavailable("ac_attr_timeout", "mount.fuse3(8)", "caching follows nfs(5): acregmin, acregmax, acdirmin, acdirmax, noac, lookupcache"),
	unavailable("remember", "mount.fuse3(8)", "caching follows nfs(5): acregmin, acregmax, acdirmin, acdirmax, noac, lookupcache"),
	unavailable("noforget", "mount.fuse3(8)", "caching follows nfs(5): acregmin, acregmax, acdirmin, acdirmax, noac, lookupcache"),
	unavailable("max_read", "mount.fuse3(8)", "rdmafs settles it with the kernel; leave it out"),
	unavailable("max_write", "mount.fuse3(8)", "rdmafs settles it with the kernel; leave it out"),
	unavailable("max_readahead", "mount.fuse3(8)", "rdmafs settles it with the kernel; leave it out"),
	unavailable("max_background", "mount.fuse3(8)", "rdmafs settles it with the kernel; leave it out"),
	unavailable("congestion_threshold", "mount.fuse3(8)", "rdmafs settles it with the kernel; leave it out"),
	unavailable("async_read", "mount.fuse3(8)", "rdmafs settles it with the kernel; leave it out"),
	unavailable("sync_read", "mount.fuse3(8)", "rdmafs settles it with the kernel; leave it out"),
	unavailable("big_writes", "mount.fuse3(8)", "rdmafs settles it with the kernel; leave it out"),
	unavailable("large_read", "mount.fuse3(8)", "rdmafs settles it with the kernel; leave it out"),
	unavailable("nonempty", "mount.fuse3(8)", "rdmafs settles it with the kernel; leave it out"),
	unavailable("direct_io", "mount.fuse3(8)", "rdmafs settles it with the kernel; leave it out"),
	unavailable("hard_remove", "mount.fuse3(8)", "rdmafs settles it with the kernel; leave it out"),
	unavailable("use_ino", "mount.fuse3(8)", "rdmafs settles it with the kernel; leave it out"),
	unavailable("readdir_ino", "mount.fuse3(8)", "rdmafs settles it with the kernel; leave it out"),
	unavailable("nopath", "mount.fuse3(8)", "rdmafs settles it with the kernel; leave it out"),
	unavailable("intr_signal", "mount.fuse3(8)", "rdmafs settles it with the kernel; leave it out"),
	unavailable("splice_read", "mount.fuse3(8)", "rdmafs settles it with the kernel; leave it out"),
	unavailable("splice_write", "mount.fuse3(8)", "rdmafs settles it with the kernel; leave it out"),
	unavailable("splice_move", "mount.fuse3(8)", "rdmafs settles it with the kernel; leave it out"),
	unavailable("no_splice_read", "mount.fuse3(8)", "rdmafs settles it with the kernel; leave it out"),
	unavailable("no_splice_write", "mount.fuse3(8)", "rdmafs settles it with the kernel; leave it out"),
	unavailable("no_splice_move", "mount.fuse3(8)", "rdmafs settles it with the kernel; leave it out"),
	unavailable("clone_fd", "mount.fuse3(8)", "rdmafs settles it with the kernel; leave it out"),
	unavailable("max_idle_threads", "mount.fuse3(8)", "rdmafs settles it with the kernel; leave it out"),
	unavailable("max_threads", "mount.fuse3(8)", "rdmafs settles it with the kernel; leave it out"),
	unavailable("async_dio", "mount.fuse3(8)", "rdmafs settles it with the kernel; leave it out"),
	unavailable("atomic_o_trunc", "mount.fuse3(8)", "rdmafs settles it with the kernel; leave it out"),
	unavailable("no_remote_lock", "mount.fuse3(8)", "lock, nolock and local_lock say which locks are local"),
	unavailable("no_remote_flock", "mount.fuse3(8)", "lock, nolock and local_lock say which locks are local"),
	unavailable("no_remote_posix_lock", "mount.fuse3(8)", "lock, nolock and local_lock say which locks are local"),
	unavailable("modules", "mount.fuse3(8)", "rdmafs is no stack of libfuse modules: mount the directory of the server that is wanted"),
	unavailable("subdir", "mount.fuse3(8)", "rdmafs is no stack of libfuse modules: mount the directory of the server that is wanted"),
	unavailable("rellinks", "mount.fuse3(8)", "rdmafs is no stack of libfuse modules: mount the directory of the server that is wanted"),
	unavailable("from_code", "mount.fuse3(8)", "rdmafs is no stack of libfuse modules: mount the directory of the server that is wanted"),
	unavailable("to_code", "mount.fuse3(8)", "rdmafs is no stack of libfuse modules: mount the directory of the server that is wanted"),
	unavailable("setuid", "mount.fuse3(8)", "rdmafs mount does not change its user: run it as the one who is to mount (fstab: user)"),
	unavailable("drop_privileges", "mount.fuse3(8)", "rdmafs mount does not change its user: run it as the one who is to mount (fstab: user)"),
	unavailable("mirror", "the guides of VAST", "there is one server, with as many addresses as remoteports= names; leave it out"),
	unavailable("tls", "the guides of AWS and Azure", "encryption of that kind is another program's (stunnel): mount what it listens on, and leave it out; xprtsec=tls is for servers with RFC 9289"),
	unavailable("iam", "the guides of AWS and Azure", "encryption of that kind is another program's (stunnel): mount what it listens on, and leave it out; xprtsec=tls is for servers with RFC 9289"),
	unavailable("accesspoint", "the guides of AWS and Azure", "encryption of that kind is another program's (stunnel): mount what it listens on, and leave it out; xprtsec=tls is for servers with RFC 9289"),
	unavailable("mounttargetip", "the guides of AWS and Azure", "encryption of that kind is another program's (stunnel): mount what it listens on, and leave it out; xprtsec=tls is for servers with RFC 9289"),
	unavailable("encryptintransit", "the guides of AWS and Azure", "encryption of that kind is another program's (stunnel): mount what it listens on, and leave it out; xprtsec=tls is for servers with RFC 9289"),
}

func forMount(name string) Option {
	return Option{Name: name, Kind: Ignored, Meaning: "for mount(8) and fstab(5); ignored", NFS: name + " of mount(8)", set: ignored}
}

func forKernel(name string) Option {
	return Option{Name: name, Kind: Passed, Meaning: "handed to the kernel with the mount", NFS: name + " of mount(8)", set: passed(name)}
}

func inert(name, detail string, set setter) Option {
	return Option{Name: name, Kind: Inert, Meaning: inertMeaning, Detail: detail, NFS: same, set: set}
}

func unavailable(name, page, why string) Option {
	return Option{Name: name, Kind: Refused, Meaning: why, NFS: name + " of " + page, set: refused(why)}
}

// byName finds an option of Table.
var byName = func() map[string]*Option {
	m := make(map[string]*Option, len(Table))
	for k := range Table {
		m[Table[k].Name] = &Table[k]
	}
	return m
}()
