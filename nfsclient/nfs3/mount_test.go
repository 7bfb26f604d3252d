package nfs3

import (
	"errors"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/transport"
)

func rpcErr(code transport.AcceptStat) error {
	return &transport.Error{Fate: transport.Answered, Err: &transport.RPCError{Code: uint32(code), Low: 4, High: 4}}
}

var refusedErr = &transport.Error{Fate: transport.NotSent, Err: &os.SyscallError{Syscall: "connect", Err: syscall.ECONNREFUSED}}

func rpcbindStep(vers uint32, reply wire.Message, err error) step {
	// GETPORT and GETADDR have the same number.
	return step{prog: wire.RpcbindProgram, vers: vers, proc: wire.PortmapGetPort, reply: reply, err: err}
}

func TestMountInfo(t *testing.T) {
	c, _, _, _ := mounted(t)
	h, a := c.Root()
	if h != "root" || a.Type != nfsclient.Directory || a.Mode != 0o755 {
		t.Errorf("root %q %+v", h, a)
	}
	want := nfsclient.Info{Version: "3", ReadMax: 1 << 20, WriteMax: 1 << 19, ReadDirMax: minReadDir, MaxFileSize: 1 << 60,
		TimeDelta: 1, Links: true, Symlinks: true, Homogeneous: true, CanSetTime: true, NameMax: 255, LinkMax: 100, NoTrunc: true}
	if got := c.Info(); got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestIOSize(t *testing.T) {
	for _, c := range []struct {
		server          uint32
		transport, user int
		want            int
	}{
		{1 << 20, 0, 0, 1 << 20}, {1 << 20, 1 << 18, 0, 1 << 18}, {1 << 20, 1 << 18, 5000, 4096}, {4095, 0, 0, 3072},
		{0, 0, 0, 8192}, {1<<32 - 1, 0, 0, 4 << 20}, {10, 0, 0, 1024}, {1 << 20, 0, 1, 1024}, {65537, 1 << 20, 1 << 20, 65536},
	} {
		if got := nfsclient.IOSize(uint64(c.server), c.transport, c.user); got != c.want {
			t.Errorf("server %d, transport %d, user %d: %d, want %d", c.server, c.transport, c.user, got, c.want)
		}
	}
}

// Lookups of mountd's port that work.
func TestMountdPort(t *testing.T) {
	getPort := &wire.GetPortArgs{}
	getAddr := &wire.Rpcb{}
	askedPort := func(t *testing.T) {
		if *getPort != (wire.GetPortArgs{Program: wire.MountProgram, Version: 3, Proto: wire.ProtoTCP}) {
			t.Errorf("asked for %+v", getPort)
		}
	}
	asked := func(netid string) func(t *testing.T) {
		return func(t *testing.T) {
			if *getAddr != (wire.Rpcb{Program: wire.MountProgram, Version: 3, NetID: netid}) {
				t.Errorf("asked for %+v", getAddr)
			}
		}
	}
	v4, v6 := "192.0.2.1", "2001:db8::1"
	mismatch := rpcErr(transport.ProgMismatch)
	for name, c := range map[string]struct {
		addr  string
		steps []step
	}{
		"port mapper":   {v4, []step{rpcbindStep(2, &wire.GetPortRes{Port: mountPort}, nil).with(getPort, askedPort)}},
		"mapped IPv4":   {"::ffff:192.0.2.1", []step{rpcbindStep(2, &wire.GetPortRes{Port: mountPort}, nil)}},
		"IPv4, rpcbind": {v4, []step{rpcbindStep(2, nil, mismatch), rpcbindStep(4, &wire.GetAddrRes{Addr: "0.0.0.0.4.210"}, nil).with(getAddr, asked("tcp"))}},
		"IPv6":          {v6, []step{rpcbindStep(4, &wire.GetAddrRes{Addr: "::.4.210"}, nil).with(getAddr, asked("tcp6"))}},
		"IPv6, version 3": {v6, []step{rpcbindStep(4, nil, mismatch),
			rpcbindStep(3, &wire.GetAddrRes{Addr: "2001:db8::1.4.210"}, nil)}},
	} {
		t.Run(name, func(t *testing.T) {
			cf := config(t, nil, map[uint16][]*fakeServer{wire.RpcbindPort: {newFake(t, c.steps...)}})
			cf.Addr = netip.MustParseAddr(c.addr)
			if port, err := cf.mountdPort(t.Context()); err != nil || port != mountPort {
				t.Errorf("port %d, %v", port, err)
			}
		})
	}
}

func TestMountFailures(t *testing.T) {
	exports := step{prog: wire.MountProgram, vers: wire.MountVersion, proc: wire.MountExport,
		reply: &wire.ExportRes{Exports: []wire.ExportEntry{{Path: "/a"}, {Path: "/b\x1b[2J"}}}}
	noExports := exports
	noExports.reply, noExports.err = nil, refusedErr
	for name, c := range map[string]struct {
		rpcbind, mountd, nfs []step
		umount               bool
		want                 Failure
		words                []string
	}{
		"rpcbind refuses": {rpcbind: []step{rpcbindStep(2, nil, refusedErr)},
			want: RpcbindUnreachable, words: []string{"192.0.2.1:111 refused the connection", "-o mountport="}},
		"rpcbind silent": {rpcbind: []step{rpcbindStep(2, nil, &transport.Error{Fate: transport.Unknown, Err: transport.ErrTimeout})},
			want: RpcbindUnreachable, words: []string{"does not answer", "no reply"}},
		"rpcbind talks nonsense": {rpcbind: []step{rpcbindStep(2, &wire.GetPortRes{Port: 1 << 16}, nil)},
			want: RpcbindUnreachable, words: []string{"port 65536"}},
		"universal address is none": {rpcbind: []step{rpcbindStep(2, nil, rpcErr(transport.ProgMismatch)),
			rpcbindStep(4, &wire.GetAddrRes{Addr: "0.0.0.0.4.256"}, nil)}, want: RpcbindUnreachable, words: []string{"universal address"}},
		"no mountd": {rpcbind: []step{rpcbindStep(2, &wire.GetPortRes{}, nil)},
			want: MountdMissing, words: []string{"knows no MOUNT service", "-o mountport="}},
		"no mountd, rpcbind": {rpcbind: []step{rpcbindStep(2, nil, rpcErr(transport.ProgMismatch)), rpcbindStep(4, &wire.GetAddrRes{}, nil)},
			want: MountdMissing, words: []string{"knows no MOUNT service"}},
		"mountd refuses": {mountd: []step{{prog: wire.MountProgram, vers: 3, proc: wire.MountMnt, err: refusedErr}},
			want: MountdUnreachable, words: []string{"192.0.2.1:1234 refused", "mountport="}},
		"not a mountd": {mountd: []step{{prog: wire.MountProgram, vers: 3, proc: wire.MountMnt, err: rpcErr(transport.ProgUnavail)}},
			want: MountdMissing, words: []string{"no mountd of version 3"}},
		"credentials denied": {mountd: []step{{prog: wire.MountProgram, vers: 3, proc: wire.MountMnt,
			err: &transport.Error{Fate: transport.Answered, Err: &transport.RPCError{Denied: true, Auth: true, Code: 5}}}},
			want: NotPermitted, words: []string{"denied", "stronger security"}},
		"no export": {mountd: []step{mntStep(&wire.MntRes{Status: wire.MountErrNoEnt}), exports},
			want: NoExport, words: []string{"server:/export: ", "no such directory", "server exports: /a, /b?[2J"}},
		"not permitted": {mountd: []step{mntStep(&wire.MntRes{Status: wire.MountErrAccess}), noExports},
			want: NotPermitted, words: []string{"permission denied", "does not tell its exports"}},
		"unknown status": {mountd: []step{mntStep(&wire.MntRes{Status: 77}), noExports}, want: NoExport, words: []string{"mount status 77"}},
		"kerberos only": {mountd: []step{mntStep(&wire.MntRes{Handle: "h", Flavors: []uint32{390003, 390005, 99}})}, umount: true,
			want: NoFlavor, words: []string{"krb5, krb5p, 99"}},
		"empty handle": {mountd: []step{mntStep(&wire.MntRes{})}, want: NFSFailed, words: []string{"empty file handle"}},
		"no NFSv3": {mountd: []step{mntStep(&wire.MntRes{Handle: "root"})}, umount: true,
			nfs:  []step{{prog: wire.NFSProgram, vers: 3, proc: wire.ProcFSInfo, err: rpcErr(transport.ProgMismatch)}},
			want: NFSFailed, words: []string{"versions 4 to 4 of this RPC program only", "(try vers=4)"}},
		"stale root": {mountd: []step{mntStep(&wire.MntRes{Handle: "root"})}, umount: true,
			nfs: []step{nfsStep(wire.ProcFSInfo, &wire.FSInfoRes{Status: nfsclient.ErrStale})}, want: NFSFailed, words: []string{"stale"}},
		"exported file": {mountd: []step{mntStep(&wire.MntRes{Handle: "root"})}, umount: true,
			nfs:  []step{nfsStep(wire.ProcFSInfo, &wire.FSInfoRes{}), nfsStep(wire.ProcGetAttr, &wire.GetAttrRes{Attr: fileAttr})},
			want: NoExport, words: []string{"not a directory"}},
	} {
		t.Run(name, func(t *testing.T) {
			servers := map[uint16][]*fakeServer{}
			if c.mountd != nil {
				servers[mountPort] = append(servers[mountPort], newFake(t, c.mountd...))
			}
			if c.umount {
				servers[mountPort] = append(servers[mountPort], umnt(t))
			}
			cf := config(t, newFake(t, c.nfs...), servers)
			if c.rpcbind != nil {
				servers[wire.RpcbindPort] = []*fakeServer{newFake(t, c.rpcbind...)}
				cf.MountPort = 0
			}
			_, err := Mount(t.Context(), cf)
			var me *MountError
			if !errors.As(err, &me) || me.Failure != c.want {
				t.Fatalf("got %v, want failure %d", err, c.want)
			}
			for _, w := range c.words {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q does not say %q", err, w)
				}
			}
			if strings.ContainsAny(err.Error(), "\x1b\n") {
				t.Errorf("%q has control characters", err)
			}
		})
	}
}

func TestMountBadConfig(t *testing.T) {
	for _, export := range []string{"", strings.Repeat("x", wire.MaxMountPath+1)} {
		cf := config(t, nil, nil)
		cf.Export = export
		_, err := Mount(t.Context(), cf)
		var me *MountError
		if !errors.As(err, &me) || me.Failure != BadConfig {
			t.Errorf("path of %d bytes: %v", len(export), err)
		}
	}
}

// A server without PATHCONF is mounted all the same, and one whose attributes
// are missing is asked for them.
func TestMountWithoutExtras(t *testing.T) {
	info := fsInfo
	info.Attr = wire.PostAttr{}
	nfs := newFake(t, nfsStep(wire.ProcFSInfo, &info), nfsStep(wire.ProcGetAttr, &wire.GetAttrRes{Attr: dirAttr}),
		nfsStep(wire.ProcPathConf, &wire.PathConfRes{Status: nfsclient.ErrNotSupp}))
	nfs.limits = transport.Limits{MaxRecv: 300000, MaxSend: 1 << 30}
	cf := config(t, nfs, map[uint16][]*fakeServer{mountPort: {mntOK(t), umnt(t)}})
	cf.WSize = 10000
	c, err := Mount(t.Context(), cf)
	if err != nil {
		t.Fatal(err)
	}
	if i := c.Info(); i.NameMax != maxNameMax || i.ReadMax != 300000&^4095 || i.WriteMax != 8192 {
		t.Errorf("%+v", i)
	}
	for range 2 {
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// UMNT is best effort: its failure is no failure of Close.
func TestCloseWithDeadMountd(t *testing.T) {
	dead := newFake(t, step{prog: wire.MountProgram, vers: 3, proc: wire.MountUmnt, err: refusedErr})
	nfs := newFake(t, nfsStep(wire.ProcFSInfo, &fsInfo), nfsStep(wire.ProcPathConf, &pathConf))
	c, err := Mount(t.Context(), config(t, nfs, map[uint16][]*fakeServer{mountPort: {mntOK(t), dead}}))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(t.Context()); err != nil || !nfs.closed {
		t.Errorf("%v, transport closed %v", err, nfs.closed)
	}
	if _, _, err := c.Readlink(t.Context(), nfsclient.Cred{}, "h"); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("READLINK after Close: %v", err)
	}
}
