package options

import "time"

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
	inertMeaning      = "taken from nfs(5); they change nothing"
)

// Table has every option, in the order of --help.
var Table = []Option{
	{Name: "proto", Value: "rdma|tcp", Default: "rdma", Meaning: `how calls travel; "rdma" and "tcp" alone will do`,
		NFS: "the same, with port 20049 for rdma, and no udp", set: oneOf([]string{"rdma", "tcp"}, func(o *Options, v string) { o.Proto = v })},
	{Name: "tcp", Meaning: "the same as proto=tcp", NFS: same, set: flag(func(o *Options) { o.Proto = "tcp" })},
	{Name: "rdma", Value: "PROVIDER", Default: "auto", Meaning: "ibv uses an RDMA device through rdma-core; iwarp needs nothing but TCP, roce nothing but UDP port 4791; " +
		"auto takes a device if one leads to the server, else what answers first; alone it is the same as proto=rdma", NFS: "the same when alone", set: rdma},
	{Name: "rdmadev", Value: "NAME", Default: "the one on the route", Meaning: "RDMA device to use, as rdmafs devices names it (implies rdma=ibv)", set: rdmaDev},
	{Name: "reg", Value: "window|region", Default: "window, where the device has them", Meaning: "keys for the server, with rdma=ibv: windows show it the bytes of a call while it lasts, " +
		"region all buffers while connected",
		set: oneOf([]string{"window", "region"}, func(o *Options, v string) { o.Reg = v })},
	{Name: "srcaddr", Value: "ADDRESS", Default: "the route's", Meaning: "address of this host to connect from; with rdma=roce each mount needs one of its own", NFS: "clientaddr=, in part", set: srcAddr},
	{Name: "port", Value: "N", Default: "2049 for tcp; for rdma 20049, and if nothing is there, what rpcbind has registered for the netid rdma or rdma6",
		Meaning: "NFS port", NFS: same, set: number(0, 65535, func(o *Options, n int) { o.Port = uint16(n) })},
	{Name: "mountport", Value: "N", Default: "ask rpcbind on port 111", Meaning: "port of the MOUNT service", NFS: same,
		set: number(0, 65535, func(o *Options, n int) { o.MountPort = uint16(n) })},
	{Name: "nlmport", Value: "N", Default: "ask rpcbind on port 111, and again whenever it must be connected to anew", Meaning: "port of the lock manager (NLM)",
		set: number(0, 65535, func(o *Options, n int) { o.NLMPort = uint16(n) })},
	{Name: "vers", Value: "3", Default: "3", Meaning: "NFS version", NFS: same, set: version3},
	{Name: "nfsvers", Value: "3", Default: "3", Meaning: "NFS version", NFS: same, set: version3},
	{Name: "rsize", Value: "N", Default: "what the server prefers", Meaning: "largest READ in bytes, 1024 to 1048576", NFS: same,
		set: number(1024, 1<<20, func(o *Options, n int) { o.RSize = n })},
	{Name: "wsize", Value: "N", Default: "what the server prefers", Meaning: "largest WRITE in bytes, 1024 to 1048576", NFS: same,
		set: number(1024, 1<<20, func(o *Options, n int) { o.WSize = n })},
	{Name: "timeo", Value: "N", Default: "600", Meaning: "tenths of a second to wait for a reply", NFS: same,
		set: number(1, 36000, func(o *Options, n int) { o.Timeo = time.Duration(n) * 100 * time.Millisecond })},
	{Name: "retrans", Value: "N", Default: "2", Meaning: "resends before a soft mount gives up", NFS: same,
		set: number(0, 1000, func(o *Options, n int) { o.Retrans = n })},
	{Name: "hard", Default: "yes", Meaning: "wait for the server without end", NFS: same, set: flag(func(o *Options) { o.Soft = false })},
	{Name: "soft", Meaning: "fail with EIO when the server has not replied to retrans resends", NFS: same, set: flag(func(o *Options) { o.Soft = true })},
	{Name: "nconnect", Value: "N", Default: "1", Meaning: "connections to the server, 1 to 16", NFS: same,
		set: number(1, 16, func(o *Options, n int) { o.NConnect = n })},
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
	{Name: "ro", Meaning: "mount read-only", NFS: "ro of mount(8)", set: flag(func(o *Options) { o.ReadOnly = true })},
	{Name: "rw", Default: "yes", Meaning: "mount read-write", NFS: "rw of mount(8)", set: flag(func(o *Options) { o.ReadOnly = false })},
	{Name: "allow_other", Meaning: "let other users in; the server decides who may walk where", NFS: "always so", set: flag(func(o *Options) { o.AllowOther = true })},
	{Name: "default_permissions", Meaning: "the kernel checks mode bits, and asks less: for servers without access control lists",
		set: flag(func(o *Options) { o.DefaultPermissions = true })},
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
	{Name: "lock", Default: "yes", Meaning: "locks are taken at the server (NLM), and fail with ENOLCK where it takes none", NFS: same, set: flag(func(o *Options) { o.NoLock = false })},
	{Name: "nolock", Meaning: "locks are local to this mount: other machines, and other mounts of this one, are not told", NFS: same, set: flag(func(o *Options) { o.NoLock = true })},
	{Name: "local_lock", Value: "none|all|flock|posix", Default: "none", Meaning: "which locks are local to this mount all the same: those of flock(2), those of fcntl(2) (posix), or both",
		NFS: same, set: oneOf([]string{"none", "all", "flock", "posix"}, func(o *Options, v string) { o.LocalLock = v })},
	{Name: "acl", Default: "yes", Meaning: "use the server's access control lists, if it has them (NFSACL)", NFS: same, set: flag(func(o *Options) { o.NoACL = false })},
	{Name: "noacl", Meaning: "do without access control lists and extended attributes, which spares a FUSE request or two a file", NFS: same, set: flag(func(o *Options) { o.NoACL = true })},

	{Name: "sec", Value: "sys", Default: "sys", Kind: Inert, Meaning: inertMeaning, Detail: "security: AUTH_SYS, by which the server believes this host who its users are", NFS: same, set: only("sys")},
	{Name: "mountproto", Value: "tcp", Default: "tcp", Kind: Inert, Meaning: inertMeaning, Detail: "MOUNT travels over TCP", NFS: same, set: only("tcp")},
	{Name: "mountvers", Value: "3", Default: "3", Kind: Inert, Meaning: inertMeaning, Detail: "version of MOUNT", NFS: same, set: only("3")},
	{Name: "lookupcache", Value: "all", Default: "all", Kind: Inert, Meaning: inertMeaning, Detail: "names are cached, and that a name does not exist", NFS: same, set: only("all")},
	{Name: "cto", Default: "yes", Kind: Inert, Meaning: inertMeaning, Detail: "close-to-open: an open asks the server whether the file has changed", NFS: same, set: flag(func(*Options) {})},
	{Name: "fg", Default: "yes", Kind: Inert, Meaning: inertMeaning, Detail: "the mount is made, or has failed, when the command returns", NFS: same, set: ignored},
	{Name: "intr", Kind: Inert, Meaning: inertMeaning, Detail: "only a signal that kills a process ends its waiting for the server", NFS: same, set: ignored},
	{Name: "nointr", Kind: Inert, Meaning: inertMeaning, Detail: "the same as intr", NFS: same, set: ignored},

	forMount("defaults"), forMount("_netdev"), forMount("auto"), forMount("noauto"), forMount("user"), forMount("nouser"),
	forMount("users"), forMount("owner"), forMount("group"), forMount("nofail"), forMount("comment"),

	forKernel("exec"), forKernel("noexec"), forKernel("suid"), forKernel("nosuid"), forKernel("dev"), forKernel("nodev"),
	forKernel("atime"), forKernel("noatime"), forKernel("relatime"), forKernel("sync"), forKernel("async"), forKernel("dirsync"),

	unavailable("remount", "mount(8)", "a mount cannot be changed: unmount it (rdmafs umount MOUNTPOINT) and mount it with the new options"),
	unavailable("bg", "nfs(5)", "a mount is not tried in the background (fstab: nofail,x-systemd.automount mounts on first use)"),
}

func forMount(name string) Option {
	return Option{Name: name, Kind: Ignored, Meaning: "for mount(8) and fstab(5); ignored", NFS: name + " of mount(8)", set: ignored}
}

func forKernel(name string) Option {
	return Option{Name: name, Kind: Passed, Meaning: "handed to the kernel with the mount", NFS: name + " of mount(8)", set: passed(name)}
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
