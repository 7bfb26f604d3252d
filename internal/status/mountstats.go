package status

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rdmafs/rdmafs/transport/account"
)

// nfsOrder is the order in which Linux lists the procedures of NFSv3 in /proc/self/mountstats.
var nfsOrder = []string{"NULL", "GETATTR", "SETATTR", "LOOKUP", "ACCESS", "READLINK", "READ", "WRITE", "CREATE", "MKDIR", "SYMLINK",
	"MKNOD", "REMOVE", "RMDIR", "RENAME", "LINK", "READDIR", "READDIRPLUS", "FSSTAT", "FSINFO", "PATHCONF", "COMMIT"}

// nfs4Order is the order in which Linux lists those of NFSv4 there (nfs4_procedures of fs/nfs/nfs4xdr.c): a row for each kind of
// COMPOUND, named after the operation that it is made for, or after what Linux asks by it.
var nfs4Order = []string{"NULL", "READ", "WRITE", "COMMIT", "OPEN", "OPEN_CONFIRM", "OPEN_NOATTR", "OPEN_DOWNGRADE", "CLOSE", "SETATTR",
	"FSINFO", "RENEW", "SETCLIENTID", "SETCLIENTID_CONFIRM", "LOCK", "LOCKT", "LOCKU", "ACCESS", "GETATTR", "LOOKUP", "LOOKUP_ROOT",
	"REMOVE", "RENAME", "LINK", "SYMLINK", "CREATE", "PATHCONF", "STATFS", "READLINK", "READDIR", "SERVER_CAPS", "DELEGRETURN", "GETACL",
	"SETACL", "FS_LOCATIONS", "RELEASE_LOCKOWNER", "SECINFO", "FSID_PRESENT", "EXCHANGE_ID", "CREATE_SESSION", "DESTROY_SESSION",
	"SEQUENCE", "GET_LEASE_TIME", "RECLAIM_COMPLETE", "LAYOUTGET", "GETDEVICEINFO", "LAYOUTCOMMIT", "LAYOUTRETURN", "SECINFO_NO_NAME",
	"TEST_STATEID", "FREE_STATEID", "GETDEVICELIST", "BIND_CONN_TO_SESSION", "DESTROY_CLIENTID", "SEEK", "ALLOCATE", "DEALLOCATE",
	"LAYOUTSTATS", "CLONE", "COPY", "OFFLOAD_CANCEL", "LOOKUPP", "LAYOUTERROR", "COPY_NOTIFY", "GETXATTR", "SETXATTR", "LISTXATTRS",
	"REMOVEXATTR", "READ_PLUS"}

// PrintMountstats prints a report as an entry of /proc/self/mountstats of Linux (statvers 1.1), so that nfsiostat(8), mountstats(8)
// and their like read it. What rdmafs does not count is 0.
func PrintMountstats(to io.Writer, r Report) error {
	var b strings.Builder
	read, write := find(r.Procedures, "READ"), find(r.Procedures, "WRITE")
	access, waiting := "rw", "hard"
	if r.ReadOnly {
		access = "ro"
	}
	if r.Soft {
		waiting = "soft"
	}
	vers, program, fsType, order := "3", 3, "nfs", nfsOrder
	if strings.HasPrefix(r.Version, "4") {
		vers, program, fsType, order = r.Version, 4, "nfs4", nfs4Order
	}
	proto := "tcp"
	if strings.HasPrefix(r.Transport, "rdma") {
		proto = "rdma"
	}
	host, port := r.Server, ""
	if i := strings.LastIndexByte(r.Server, ':'); i >= 0 {
		host, port = strings.Trim(r.Server[:i], "[]"), r.Server[i+1:]
	}
	mountd := ""
	if program == 3 {
		mountd = "mountaddr=" + octal(host) + ","
	}
	fmt.Fprintf(&b, "device %s mounted on %s with fstype %s statvers=1.1\n", octal(r.Source), octal(r.MountPoint), fsType)
	fmt.Fprintf(&b, "\topts:\t%s,vers=%s,rsize=%d,wsize=%d,%s,proto=%s,nconnect=%d,port=%s,timeo=%d,retrans=%d,sec=%s,%saddr=%s\n",
		access, octal(vers), r.RSize, r.WSize, waiting, proto, r.NConnect, octal(port), int(min(max(r.Timeo*10, 0), 1e9)), r.Retrans,
		octal(cmp.Or(r.Security, "sys")), mountd, octal(host))
	fmt.Fprintf(&b, "\tage:\t%d\n", int64(min(max(r.Age, 0), 1e12)))
	fmt.Fprintf(&b, "\tcaps:\tcaps=0x0,wtmult=%d,dtsize=%d,bsize=0,namlen=255\n\tsec:\tflavor=1,pseudoflavor=1\n", r.WSize, r.RSize)
	if n := r.State.NFS4; n != nil {
		expired := 0
		if n.Recovering {
			expired = 1
		}
		fmt.Fprintf(&b, "\tnfsv4:\tbm0=0x0,bm1=0x0,bm2=0x0,acl=0x0,sessions,pnfs=not configured,lease_time=%d,lease_expired=%d\n", int64(min(max(n.Lease, 0), 1e9)), expired)
	}
	// nfs_stat_eventcounters of linux/nfs_iostat.h, 27 of them.
	q := func(name string) uint64 { return r.Requests[name] }
	events := [27]uint64{
		r.Cache.AttributeMisses, r.Cache.NameMisses, 0, 0, q("open"), q("lookup"), q("access"), 0, q("read"), q("read"), 0,
		q("write"), q("readdir") + q("readdirplus"), q("setattr"), q("flush"), q("fsync"), q("setlk") + q("setlkw"), q("release"),
	}
	fmt.Fprintf(&b, "\tevents:\t%s\n", strings.Trim(fmt.Sprint(events), "[]"))
	// nfs_stat_bytecounters: read and written by programs, the same with O_DIRECT, from and to the server, pages.
	in, out := read.BytesReceived, write.BytesSent
	fmt.Fprintf(&b, "\tbytes:\t%d %d 0 0 %d %d %d %d\n", in, out, in, out, in/4096, out/4096)
	fmt.Fprintf(&b, "\tRPC iostats version: 1.1  p/v: 100003/%d (nfs)\n", program)
	c := &r.Calls
	if proto == "rdma" {
		fmt.Fprintf(&b, "\txprt:\trdma 0 0 %d 0 0 %d %d %d 0 0 %d %d %d %d 0 0 0 %d %d 0 0 0 0 0 0 0 0 0 0\n", c.Connects, c.Calls, c.Replies, c.BadXIDs,
			c.ReadChunks, c.WriteChunks, c.ReplyChunks, c.BytesSent, c.BytesReceived, c.BadReplies)
	} else {
		fmt.Fprintf(&b, "\txprt:\ttcp 0 0 %d 0 0 %d %d %d 0 0 0 0 0\n", c.Connects, c.Calls, c.Replies, c.BadXIDs)
	}
	b.WriteString("\tper-op statistics\n")
	row := func(name string, p *account.Procedure) {
		fmt.Fprintf(&b, "\t%12s: %d %d %d %d %d %d %d %d %d\n", name, p.Calls, p.Calls+p.Resends, p.Timeouts, p.BytesSent, p.BytesReceived,
			p.Queue.SumNS/1e6, p.RTT.SumNS/1e6, p.Execution.SumNS/1e6, p.Errors)
	}
	for _, name := range order {
		p := find(r.Procedures, name)
		row(name, &p)
	}
	for i := range r.Procedures {
		// What Linux has no row for.
		if p := &r.Procedures[i]; p.Program == "NFS" && !slices.Contains(order, p.Procedure) {
			row(octal(p.Procedure), p)
		}
	}
	_, err := io.WriteString(to, b.String()+"\n")
	return err
}

// find is a procedure of NFS; the zero Procedure if it was not called.
func find(all []account.Procedure, name string) account.Procedure {
	for _, p := range all {
		if p.Program == "NFS" && p.Procedure == name {
			return p
		}
	}
	return account.Procedure{}
}

// octal is a word of that file: as in the kernel's, what would end it or a terminal would obey is written in octal.
func octal(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		if c <= ' ' || c >= 0x7f || c == '\\' {
			fmt.Fprintf(&b, `\%03o`, c)
		} else {
			b.WriteByte(c)
		}
	}
	if b.Len() == 0 {
		return "none"
	}
	return b.String()
}
