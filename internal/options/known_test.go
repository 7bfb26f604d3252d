package options

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// taken are options of nfs(5), mount(8), mount.fuse3(8) and servers' guides, each with a
// value as their pages give it, that are taken as they stand.
const taken = `hard soft softerr timeo=600 retrans=2 rsize=1048576 wsize=65536 ac noac acregmin=3 acregmax=60 acdirmin=30 acdirmax=60 actimeo=5
bg fg retry=1 sec=sys sharecache nosharecache resvport noresvport lookupcache=all lookupcache=pos lookupcache=positive lookupcache=none
proto=tcp proto=tcp6 proto=rdma proto=rdma6 tcp tcp6 rdma rdma6 port=2049 mountport=20048 mountproto=tcp mountproto=tcp6 mounthost=server
mountaddr=10.0.0.5 mountvers=3 namlen=255 lock nolock local_lock=none local_lock=flock local_lock=posix local_lock=all cto nocto acl noacl
nofsc softreval nosoftreval vers=3 nfsvers=3 vers=3.0 v3 vers=4 vers=4.1 nfsvers=4.2 v4 v4.1 v4.2 intr nointr clientaddr=10.0.0.9 max_connect=4 notrunkdiscovery nomigration noposix posix xprtsec=none
noalignwrite nconnect=16 sloppy addr=10.0.0.5
ro rw suid nosuid dev nodev exec noexec sync async dirsync atime noatime relatime diratime nodiratime defaults auto noauto user user=joe nouser
users nousers owner noowner group nogroup nofail _netdev comment=x silent loud x-systemd.automount x-systemd.requires=network-online.target X-mount.mkdir
allow_other default_permissions auto_unmount rdirplus rdirplus=force rdirplus=none nordirplus forcerdirplus remoteports=10.0.0.1-10.0.0.8~10.0.1.1 remoteports=dns localports=10.0.0.9~fe80::1 spread_reads spread_writes fsname=x subtype=rdmafs debug nodebug noidlexprt sec=krb5 sec=krb5i sec=krb5p`

// nearly are taken with another value, of which Notes tells.
var nearly = map[string]func(*Options){
	"rsize=2097152":              func(o *Options) { o.RSize = 1 << 20 },
	"rsize=512":                  func(o *Options) { o.RSize = 4096 },
	"wsize=65537":                func(o *Options) { o.WSize = 65536 },
	"wsize=1500":                 func(o *Options) { o.WSize = 1024 },
	"nconnect=64":                func(o *Options) { o.NConnect = 16 },
	"nconnect=0":                 func(o *Options) { o.NConnect = 1 },
	"retrans=100000":             func(o *Options) { o.Retrans = 1000 },
	"sloppy,frobnicat":           func(o *Options) { o.Sloppy = true },
	"wsize=99999999999999999999": func(o *Options) { o.WSize = 1 << 20 },
}

// declined are refused, with words of the reason.
var declined = map[string]string{
	"vers=2 vers=4.0 nfsvers=4.3 v4.0 v2 minorversion=0": "3, 4.1 and 4.2",
	"minorversion=1":                    "must stand before",
	"migration":                         "followed",
	"trunkdiscovery":                    "addresses",
	"proto=udp proto=udp6 udp udp6":     "UDP",
	"fsc fsc=x":                         "disk",
	"write=eager write=wait write=lazy": "fsync",
	"fatal_neterrors=none":              "made anew",
	"xprtsec=tls xprtsec=mtls":          "RFC 9289 has no form for RDMA",
	"xprtsec=yes":                       "wants one of",
	"cert_serial=1 privkey_serial=1":    "xprtsec_cert",
	"alignwrite":                        "kernel",
	"mountproto=udp mountproto=udp6":    "tcp",
	"mountvers=1 mountvers=2":           "wants one of 3",
	"context=x fscontext=x defcontext=x rootcontext=x seclabel":                                             "SELinux",
	"iversion noiversion lazytime nolazytime strictatime nostrictatime norelatime mand nomand":              "server",
	"bind rbind move shared rshared private rprivate slave rslave unbindable runbindable":                   "mount(8)",
	"quota noquota usrquota grpquota":                                                                       "quotas",
	"loop loop=/dev/loop0 offset=1 sizelimit=1 blksize=512 blkdev fd=3 rootmode=40000 user_id=0 group_id=0": "image",
	"uid=1 gid=1 umask=022 dmask=022 fmask=022 mode=755":                                                    "owners",
	"allow_root": "allow_other",
	"kernel_cache auto_cache noauto_cache entry_timeout=1 negative_timeout=0 attr_timeout=1 ac_attr_timeout=1 remember=1 noforget": "acregmin",
	"max_read=4096 max_write=4096 max_readahead=4096 max_background=12 congestion_threshold=9 async_read sync_read big_writes large_read nonempty direct_io hard_remove use_ino readdir_ino nopath intr_signal=10 clone_fd max_idle_threads=10 max_threads=10 splice_read splice_write splice_move no_splice_read no_splice_write no_splice_move async_dio atomic_o_trunc": "leave it out",
	"no_remote_lock no_remote_flock no_remote_posix_lock":    "local_lock",
	"modules=subdir subdir=x rellinks from_code=x to_code=x": "libfuse",
	"setuid=joe drop_privileges":                             "user",
	"subtype=nfs":                                            "rdmafs",
	"mirror":                                                 "one server",
	"tls iam accesspoint=x mounttargetip=10.0.0.5 encryptintransit": "encryption",
}

// TestKnownOptions: every option that the manual pages and servers' guides have is taken,
// taken at its bound, or refused with a reason.
func TestKnownOptions(t *testing.T) {
	seen := map[string]bool{}
	name := func(word string) string {
		n, _, _ := strings.Cut(word, "=")
		return n
	}
	for _, word := range strings.Fields(taken) {
		seen[name(word)] = true
		if o, err := Parse([]string{word}); err != nil || len(o.Notes) > 0 {
			t.Errorf("%s: %v, %q", word, err, o.Notes)
		}
	}
	for words, want := range nearly {
		o, err := Parse([]string{words})
		if err != nil || len(o.Notes) != 1 {
			t.Errorf("%s: %v, %q", words, err, o.Notes)
		}
		o.Notes = nil
		taken := Default()
		if want(&taken); !reflect.DeepEqual(o, taken) {
			t.Errorf("%s: %+v", words, o)
		}
	}
	for words, why := range declined {
		for _, word := range strings.Fields(words) {
			seen[name(word)] = true
			if _, err := Parse([]string{word}); err == nil || !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), name(word)) {
				t.Errorf("%s: refused with %v, which does not say %q", word, err, why)
			}
		}
	}
	for _, o := range Table {
		if !seen[o.Name] && !slices.Contains(own, o.Name) {
			t.Errorf("%s is not tried", o.Name)
		}
	}
}

// own are rdmafs' own options, which TestParse tries.
var own = []string{"rdma", "rdmadev", "reg", "srcaddr", "nlmport", "noddp", "crc", "inline", "rdmavers", "msgp", "ccp", "readread", "fuse", "nodebug", "remount", "log", "logfile", "logformat", "slow", "metrics", "pprof",
	"xprtsec_ca", "xprtsec_cert", "xprtsec_key", "krb5_keytab", "krb5_principal", "krb5_ccache"}

// TestAllThatIsWrong: one error has every bad word, and what was most likely meant.
func TestAllThatIsWrong(t *testing.T) {
	_, err := Parse([]string{"ro,ncnonect=4,vers=4.0,rsiz=1,prto=rdma,fsc,zzzzzz"})
	if err == nil {
		t.Fatal("taken")
	}
	for _, says := range []string{`unknown mount options "ncnonect" (did you mean "nconnect"?), "rsiz" (did you mean "rsize"?), "prto" (did you mean "proto"?), "zzzzzz" (rdmafs`,
		`mount options "vers=4.0": rdmafs speaks the NFS versions 3, 4.1 and 4.2`, `; "fsc": `} {
		if !strings.Contains(err.Error(), says) {
			t.Errorf("%v\ndoes not say %s", err, says)
		}
	}
}
