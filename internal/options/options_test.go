package options

import (
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		words []string
		want  func(*Options)
	}{
		{nil, func(*Options) {}},
		{[]string{""}, func(*Options) {}},
		{[]string{"proto=tcp,port=1234"}, func(o *Options) { o.Proto, o.Port = "tcp", 1234 }},
		{[]string{"tcp"}, func(o *Options) { o.Proto = "tcp" }},
		{[]string{"xprtsec=tls,proto=tcp"}, func(o *Options) { o.Proto, o.XprtSec = "tcp", "tls" }},
		{[]string{"tcp6,xprtsec=mtls,xprtsec_ca=/a,xprtsec_cert=/c,xprtsec_key=/k"}, func(o *Options) {
			o.Proto, o.IPv6, o.XprtSec, o.XprtCA, o.XprtCert, o.XprtKey = "tcp", true, "mtls", "/a", "/c", "/k"
		}},
		{[]string{"xprtsec=tls,xprtsec=none"}, func(*Options) {}},
		{[]string{"xprtsec=tls,xprtsec_ca=/a", "xprtsec=none"}, func(o *Options) { o.XprtCA = "/a" }},
		{[]string{"tcp", "rdma"}, func(*Options) {}},
		{[]string{"rdmavers=auto"}, func(o *Options) { o.RDMAVers = "auto" }},
		{[]string{"rdmavers=2", "rdmavers=1"}, func(*Options) {}},
		{[]string{"ccp"}, func(o *Options) { o.CCP = true }},
		{[]string{"readread"}, func(o *Options) { o.ReadRead = true }},
		{[]string{"msgp=4096:512"}, func(o *Options) { o.PadAlign, o.PadThreshold = 4096, 512 }},
		{[]string{"rdma=iwarp,noddp,crc,inline=1024"}, func(o *Options) { o.RDMA, o.NoDDP, o.CRC, o.Inline = "iwarp", true, true, 1024 }},
		{[]string{"rdma=ibv,reg=region,srcaddr=fd00::7"}, func(o *Options) {
			o.RDMA, o.Reg, o.SrcAddr = "ibv", "region", netip.MustParseAddr("fd00::7")
		}},
		{[]string{"rdmadev=mlx5_0,reg=window,srcaddr=::ffff:10.0.0.9"}, func(o *Options) {
			o.RDMA, o.RDMADev, o.Reg, o.SrcAddr = "ibv", "mlx5_0", "window", netip.MustParseAddr("10.0.0.9")
		}},
		{[]string{"soft,timeo=5,retrans=0"}, func(o *Options) { o.Soft, o.Timeo, o.Retrans = true, 500*time.Millisecond, 0 }},
		{[]string{"soft", "hard"}, func(*Options) {}},
		{[]string{"rsize=4096,wsize=1048576,nconnect=16,mountport=20048"}, func(o *Options) {
			o.RSize, o.WSize, o.NConnect, o.MountPort, o.Vers = 4096, 1<<20, 16, 20048, "3"
		}},
		{[]string{"actimeo=7"}, func(o *Options) {
			o.AcRegMin, o.AcRegMax, o.AcDirMin, o.AcDirMax = 7*time.Second, 7*time.Second, 7*time.Second, 7*time.Second
		}},
		{[]string{"acregmin=0,noac,ro,allow_other"}, func(o *Options) {
			o.AcRegMin, o.NoAC, o.ReadOnly, o.AllowOther = 0, true, true, true
		}},
		{[]string{"allow_other,default_permissions"}, func(o *Options) { o.AllowOther, o.DefaultPermissions = true, true }},
		{[]string{"fuse=ring"}, func(o *Options) { o.Over = "ring" }},
		{[]string{"fuse=ring,fuse=auto"}, func(o *Options) { o.Over = "dev" }},
		{[]string{"_netdev,noauto,x-systemd.automount,x-foo=bar,comment=a b,nofail,defaults"}, func(*Options) {}},
		{[]string{"mountproto=tcp,mountvers=3,lookupcache=all,cto,fg,intr,nointr,lock,local_lock=none"}, func(o *Options) { o.Vers = "3" }},
		{[]string{"nolock"}, func(o *Options) { o.NoLock = true }},
		{[]string{"sec=krb5p", "sec=sys"}, func(o *Options) { o.Sec = "sys" }},
		{[]string{"sec=krb5i,krb5_keytab=FILE:/etc/nfs.keytab,krb5_principal=alice@A.LAN,krb5_ccache=DIR:/run/user/%{uid}/krb5cc"}, func(o *Options) {
			o.Sec, o.Keytab, o.Principal, o.CCache = "krb5i", "/etc/nfs.keytab", "alice@A.LAN", "DIR:/run/user/%{uid}/krb5cc"
		}},
		{[]string{"krb5_ccache=KCM:"}, func(o *Options) { o.CCache = "KCM:" }},
		{[]string{"krb5_ccache=KEYRING:persistent:%{uid}"}, func(o *Options) { o.CCache = "KEYRING:persistent:%{uid}" }},
		{[]string{"krb5_ccache=/tmp/cc,krb5_keytab=/k"}, func(o *Options) { o.CCache, o.Keytab = "/tmp/cc", "/k" }},
		{[]string{"nolock,local_lock=flock", "lock"}, func(o *Options) { o.LocalLock = "flock" }},
		{[]string{"nosuid,nodev,noexec"}, func(o *Options) { o.Fuse = []string{"nosuid", "nodev", "noexec"} }},
		{[]string{"vers=3", "nfsvers=auto"}, func(*Options) {}},
	} {
		want := Default()
		c.want(&want)
		got, err := Parse(c.words)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, %v", c.words, got, err)
		}
	}
}

func TestParseNamesWhatIsWrong(t *testing.T) {
	for words, named := range map[string]string{
		"frobnicate":             `"frobnicate"`,
		"ro,frob=1,soft":         `"frob"`,
		"proto=udp":              `"proto=udp"`,
		"nconnect=x":             `"nconnect=x"`,
		"rdma=ibm":               `"rdma=ibm"`,
		"reg=all":                `"reg=all"`,
		"rdmadev":                `"rdmadev"`,
		"srcaddr=server":         `"srcaddr=server"`,
		"srcaddr=0.0.0.0":        `"srcaddr=0.0.0.0"`,
		"port=65536":             `"port=65536"`,
		"port":                   `"port"`,
		"timeo=-1":               `"timeo=-1"`,
		"soft=yes":               `"soft=yes"`,
		"vers=4.3":               `"vers=4.3"`,
		"sec=krb6":               `"sec=krb6"`,
		"sec":                    `"sec"`,
		"krb5_keytab=nfs.keytab": `"krb5_keytab=nfs.keytab"`,
		"krb5_keytab":            `"krb5_keytab"`,
		"krb5_ccache=FILE:cc":    `"krb5_ccache=FILE:cc"`,
		"krb5_ccache=KCM":        `"krb5_ccache=KCM"`,
		"krb5_ccache=KEYRING:":   `"krb5_ccache=KEYRING:"`,
		"krb5_ccache=MEMORY:x":   `"krb5_ccache=MEMORY:x"`,
		"krb5_ccache=cc":         `"krb5_ccache=cc"`,
		"krb5_principal=":        `"krb5_principal="`,
		"readread=1":             `"readread=1"`,
		"rdmavers=3":             `"rdmavers=3"`,
		"xprtsec=tls,rdma":       "xprtsec=tls goes with proto=tcp",
		"tcp,xprtsec_ca=ca.pem":  `"xprtsec_ca=ca.pem"`,
		"tcp,xprtsec_key=/k":     "go together",
		"tcp,xprtsec_ca=/a":      "go with xprtsec=tls",
		"rdmavers":               `"rdmavers"`,
		"msgp":                   `"msgp"`,
		"msgp=64":                `"msgp=64"`,
		"msgp=1:512":             `"msgp=1:512"`,
		"msgp=64:511":            `"msgp=64:511"`,
		"inline=512":             `"inline=512"`,
		"acregmin=9,acregmax=3":  "acregmin",
		"actimeo=99999999999999": `"actimeo=99999999999999"`,
	} {
		_, err := Parse([]string{words})
		if err == nil || !strings.Contains(err.Error(), named) {
			t.Errorf("%q: error %v does not name %s", words, err, named)
		}
	}
}

// TestHelpNamesEveryOption keeps --help and the table the same.
func TestHelpNamesEveryOption(t *testing.T) {
	for _, says := range []string{"(default: 8192)", "(default: 3 60 30 60)"} { // of names of one option, and of several in one row
		if !strings.Contains(Help(), says) {
			t.Errorf("--help has no %q", says)
		}
	}
	known := map[string]bool{}
	for name := range byName {
		known[name] = true
		if !regexp.MustCompile(`(^|[^a-z_])` + name + `([^a-z_]|$)`).MatchString(Help()) {
			switch name {
			case "group", "nouser", "ac":
				continue // like their neighbours in the help
			}
			t.Errorf("--help does not name %q", name)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)\b([a-z]+)=[N0-9a-z]`).FindAllStringSubmatch(Help(), -1) {
		if !known[m[1]] {
			t.Errorf("--help names %q, which is not an option", m[1])
		}
	}
}

// TestDefaults: a default in the table is what Default has, and each name is there
// once.
func TestDefaults(t *testing.T) {
	// Defaults that no value of the option stands for.
	other := []string{"rdmadev", "reg", "srcaddr", "addr", "mounthost", "mountaddr", "fsname", "retry", "port", "vers", "nfsvers", "mountport", "mountproto", "mountvers", "nlmport", "rsize", "wsize", "sec",
		"xprtsec_ca", "xprtsec_cert", "xprtsec_key", "krb5_keytab", "krb5_principal", "krb5_ccache"}
	seen := map[string]bool{}
	for _, o := range Table {
		if seen[o.Name] {
			t.Errorf("%s is in the table twice", o.Name)
		}
		seen[o.Name] = true
		if o.Meaning == "" {
			t.Errorf("%s has no meaning", o.Name)
		}
		word := o.Name
		switch {
		case o.Default == "" || slices.Contains(other, o.Name):
			continue
		case o.Value != "":
			word += "=" + o.Default
		case o.Default != "yes":
			t.Errorf("%s takes no value, and its default is %q", o.Name, o.Default)
		}
		if got, err := Parse([]string{word}); err != nil || !reflect.DeepEqual(got, Default()) {
			t.Errorf("%s: %+v, %v; want the defaults", word, got, err)
		}
	}
}

// TestServerLocks: what nolock and local_lock leave to the server.
func TestServerLocks(t *testing.T) {
	for words, want := range map[string][2]bool{
		"":                       {true, true},
		"nolock":                 {false, false},
		"nolock,lock":            {true, true},
		"local_lock=all":         {false, false},
		"local_lock=flock":       {true, false},
		"local_lock=posix":       {false, true},
		"nolock,local_lock=none": {false, false},
	} {
		o, err := Parse([]string{words})
		if posix, flock := o.ServerLocks(); err != nil || [2]bool{posix, flock} != want {
			t.Errorf("%q: fcntl %t, flock %t, %v", words, posix, flock, err)
		}
	}
}
