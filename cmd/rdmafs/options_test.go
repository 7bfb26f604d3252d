package main

import (
	"net/netip"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestParseOptions(t *testing.T) {
	for _, c := range []struct {
		words []string
		want  func(*options)
	}{
		{nil, func(*options) {}},
		{[]string{""}, func(*options) {}},
		{[]string{"proto=tcp,port=1234"}, func(o *options) { o.proto, o.port = "tcp", 1234 }},
		{[]string{"tcp"}, func(o *options) { o.proto = "tcp" }},
		{[]string{"tcp", "rdma"}, func(*options) {}},
		{[]string{"rdmavers=auto"}, func(o *options) { o.rdmaVers = "auto" }},
		{[]string{"rdmavers=2", "rdmavers=1"}, func(*options) {}},
		{[]string{"ccp"}, func(o *options) { o.ccp = true }},
		{[]string{"readread"}, func(o *options) { o.readRead = true }},
		{[]string{"msgp=4096:512"}, func(o *options) { o.padAlign, o.padThreshold = 4096, 512 }},
		{[]string{"rdma=iwarp,noddp,crc,inline=1024"}, func(o *options) { o.rdma, o.noDDP, o.crc, o.inline = "iwarp", true, true, 1024 }},
		{[]string{"rdma=ibv,reg=region,srcaddr=fd00::7"}, func(o *options) {
			o.rdma, o.reg, o.srcAddr = "ibv", "region", netip.MustParseAddr("fd00::7")
		}},
		{[]string{"rdmadev=mlx5_0,reg=window,srcaddr=::ffff:10.0.0.9"}, func(o *options) {
			o.rdma, o.rdmaDev, o.reg, o.srcAddr = "ibv", "mlx5_0", "window", netip.MustParseAddr("10.0.0.9")
		}},
		{[]string{"soft,timeo=5,retrans=0"}, func(o *options) { o.soft, o.timeo, o.retrans = true, 500*time.Millisecond, 0 }},
		{[]string{"soft", "hard"}, func(*options) {}},
		{[]string{"rsize=4096,wsize=1048576,nconnect=16,mountport=20048"}, func(o *options) {
			o.rsize, o.wsize, o.nconnect, o.mountPort = 4096, 1<<20, 16, 20048
		}},
		{[]string{"actimeo=7"}, func(o *options) {
			o.acRegMin, o.acRegMax, o.acDirMin, o.acDirMax = 7*time.Second, 7*time.Second, 7*time.Second, 7*time.Second
		}},
		{[]string{"acregmin=0,noac,ro,allow_other"}, func(o *options) {
			o.acRegMin, o.noAC, o.readOnly, o.allowOther = 0, true, true, true
		}},
		{[]string{"allow_other,default_permissions"}, func(o *options) { o.allowOther, o.defaultPermissions = true, true }},
		{[]string{"_netdev,noauto,x-systemd.automount,x-foo=bar,comment=a b,nofail,defaults"}, func(*options) {}},
		{[]string{"sec=sys,mountproto=tcp,mountvers=3,lookupcache=all,cto,fg,intr,nointr,nolock,local_lock=all"}, func(*options) {}},
		{[]string{"nosuid,nodev,noexec"}, func(o *options) { o.fuse = []string{"nosuid", "nodev", "noexec"} }},
		{[]string{"vers=3", "nfsvers=3"}, func(*options) {}},
	} {
		want := defaultOptions()
		c.want(&want)
		got, err := parseOptions(c.words)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, %v", c.words, got, err)
		}
	}
}

func TestParseOptionsNamesWhatIsWrong(t *testing.T) {
	for words, named := range map[string]string{
		"frobnicate":             `"frobnicate"`,
		"ro,frob=1,soft":         `"frob"`,
		"proto=udp":              `"proto=udp"`,
		"rdma=ibm":               `"rdma=ibm"`,
		"reg=all":                `"reg=all"`,
		"rdmadev":                `"rdmadev"`,
		"srcaddr=server":         `"srcaddr=server"`,
		"srcaddr=0.0.0.0":        `"srcaddr=0.0.0.0"`,
		"port=65536":             `"port=65536"`,
		"port":                   `"port"`,
		"rsize=0":                `"rsize=0"`,
		"timeo=-1":               `"timeo=-1"`,
		"soft=yes":               `"soft=yes"`,
		"vers=4.2":               `"vers=4.2"`,
		"sec=krb5":               `"sec=krb5"`,
		"nconnect=17":            `"nconnect=17"`,
		"readread=1":             `"readread=1"`,
		"rdmavers=3":             `"rdmavers=3"`,
		"rdmavers":               `"rdmavers"`,
		"msgp":                   `"msgp"`,
		"msgp=64":                `"msgp=64"`,
		"msgp=1:512":             `"msgp=1:512"`,
		"msgp=64:511":            `"msgp=64:511"`,
		"inline=512":             `"inline=512"`,
		"acregmin=9,acregmax=3":  "acregmin",
		"actimeo=99999999999999": `"actimeo=99999999999999"`,
	} {
		_, err := parseOptions([]string{words})
		if err == nil || !strings.Contains(err.Error(), named) {
			t.Errorf("%q: error %v does not name %s", words, err, named)
		}
	}
}

// TestHelpNamesEveryOption keeps --help and the table the same.
func TestHelpNamesEveryOption(t *testing.T) {
	known := map[string]bool{}
	for name := range optionTable {
		known[name] = true
		if !regexp.MustCompile(`(^|[^a-z_])` + name + `([^a-z_]|$)`).MatchString(optionHelp) {
			switch name {
			case "group", "nouser", "ac":
				continue // like their neighbours in the help
			}
			t.Errorf("--help does not name %q", name)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)\b([a-z]+)=[N0-9a-z]`).FindAllStringSubmatch(optionHelp, -1) {
		if !known[m[1]] {
			t.Errorf("--help names %q, which is not an option", m[1])
		}
	}
}

func TestParseSource(t *testing.T) {
	for text, want := range map[string]source{
		"server:/export":          {"server:/export", "server", "/export"},
		"10.0.0.5:/":              {"10.0.0.5:/", "10.0.0.5", "/"},
		"[fd00::1]:/a b/c":        {"[fd00::1]:/a b/c", "fd00::1", "/a b/c"},
		"[fe80::1%eth0]:/x":       {"[fe80::1%eth0]:/x", "fe80::1%eth0", "/x"},
		"server.example.org:/a:b": {"server.example.org:/a:b", "server.example.org", "/a:b"},
	} {
		if got, err := parseSource(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for text, hint := range map[string]string{
		"server":           "colon",
		"":                 "colon",
		":/export":         "server is missing",
		"server:export":    "absolute",
		"server:":          "absolute",
		"fd00::1:/export":  "[address]",
		"[fd00::1/export":  "[address]",
		"[10.0.0.1]:/e":    "no IPv6",
		"[server]:/export": "no IPv6",
	} {
		if _, err := parseSource(text); err == nil || !strings.Contains(err.Error(), hint) {
			t.Errorf("%q: error %v does not say %q", text, err, hint)
		}
	}
}
