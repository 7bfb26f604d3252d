package doctor

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/verbs/rdmadev"
	"github.com/rdmafs/rdmafs/verbs/rdmadev/rdmadevtest"
)

const (
	hardWay = "rdma/hard to 10.99.0.2:20049"
	softWay = "rdma/soft to 10.99.0.2:20049"
)

// TestEverythingThere is the walk in full.
func TestEverythingThere(t *testing.T) {
	r := newRig(t, rdmadevtest.RXE, rdmadevtest.SIW)
	report := r.examine(t)
	got := lines(report)
	for _, l := range []string{
		"This machine|FUSE|ok",
		"This machine|provider hard|ok",
		"This machine|provider soft|ok",
		"RDMA devices|libraries|ok",
		"RDMA devices|kernel modules|ok",
		"RDMA devices|rxe0 port 1|ok",
		"RDMA devices|rxe0 access|ok",
		"RDMA devices|siw0 port 1|ok",
		"RDMA devices|siw0 access|ok",
		"RDMA devices|locked memory|ok",
		"The way to server|name|ok",
		"The way to server|route|ok",
		"The way to server|device on route|ok",
		hardWay + "|connection|ok",
		hardWay + "|private data|ok",
		hardWay + "|RPC-over-RDMA|ok",
		hardWay + "|credits|ok",
		hardWay + "|NULL call|ok",
		softWay + "|connection|ok",
		softWay + "|NULL call|ok",
		"Other ways|tcp:20049|ok",
		"The export /export|export list|ok",
		"The export /export|admission|ok",
		"The export /export|rights|ok",
		"The export /export|transfer of 64 KiB|ok",
		"The export /export|transfer of 1024 KiB|ok",
		"Mount|trial mount|ok",
	} {
		if !slices.Contains(got, l) {
			t.Errorf("missing: %s", l)
		}
	}
	if t.Failed() {
		t.Logf("%q", got)
	}
	if !report.OK || r.trials != 1 {
		t.Errorf("ok %v after %d trials: %s", report.OK, r.trials, report.Verdict)
	}
	if st := find(t, report, hardWay, "credits"); st.Facts != r.rdma.terms || !strings.Contains(st.Detail, "64 granted") {
		t.Errorf("credits: %+v", st)
	}
	if st := find(t, report, "The way to server", "device on route"); !strings.Contains(st.Detail, "rxe0 port 1, GID 1 is ::ffff:10.99.0.2, RoCE v2") {
		t.Errorf("%+v", st)
	}
	if st := find(t, report, "The export /export", "export list"); !strings.Contains(st.Detail, "/home (10.0.0.0/8)") {
		t.Errorf("%+v", st)
	}
}

// TestFindings changes one thing at a time.
func TestFindings(t *testing.T) {
	all := []map[string]string{rdmadevtest.RXE}
	for _, c := range []struct {
		name   string
		trees  []map[string]string
		change func(r *rig)
		step   string // section|name|status
		says   string
		remedy string
		ok     bool
		trials int
	}{
		{"no fusermount3", all, func(r *rig) { r.Fuse = func() error { return errors.New("no fusermount3; install fuse3") } },
			"This machine|FUSE|failure", "no fusermount3", "install fuse3", false, 0},
		{"no io_uring", all, func(r *rig) { r.Rings = func() error { return errors.New("switched off; switch it on") } },
			"This machine|FUSE over io_uring|skipped", "switched off; switch it on", "", true, 1},
		{"no io_uring, and chosen", all, func(r *rig) {
			r.RingsChosen, r.Rings = true, func() error { return errors.New("switched off; switch it on") }
		}, "This machine|FUSE over io_uring|failure", "switched off", "switch it on", false, 0},
		{"no modules, and no need of them", nil, func(r *rig) {},
			"RDMA devices|kernel modules|skipped", "not loaded", "", true, 1},
		{"no modules", nil, onlyHard, "RDMA devices|kernel modules|failure", "not loaded", "modprobe", false, 0},
		{"no libraries", all, func(r *rig) { r.Libraries = func(string) string { return "" } },
			"RDMA devices|libraries|skipped", "libibverbs.so.1, librdmacm.so.1", "", true, 1},
		{"no library, and needed", all, func(r *rig) {
			onlyHard(r)
			r.Libraries = func(n string) string { return strings.TrimPrefix("/lib/"+n, "/lib/librdmacm.so.1") }
		}, "RDMA devices|libraries|failure", "not installed: librdmacm.so.1", "apt install", false, 0},
		{"port down", []map[string]string{rdmadevtest.MLX5, rdmadevtest.RXE}, func(r *rig) {},
			"RDMA devices|mlx5_0 port 1|warning", "the link is Disabled", "ip link", true, 1},
		{"no node", []map[string]string{rdmadevtest.MLX5, rdmadevtest.RXE}, func(r *rig) {},
			"RDMA devices|mlx5_0 access|warning", "uverbs2: no such file", "--device=", true, 1},
		{"no limit", all, func(r *rig) {}, "RDMA devices|locked memory|ok", "no limit", "", true, 1},
		{"high limit", all, func(r *rig) { r.Memory.Limit = 1 << 30 }, "RDMA devices|locked memory|ok", "1024 MiB", "", true, 1},
		{"low limit", all, func(r *rig) { r.Memory = Memory{Limit: 8 << 20, Note: "5 MiB of buffers"} },
			"RDMA devices|locked memory|warning", "5 MiB", "", true, 1},
		{"limit too low", all, func(r *rig) { onlyHard(r); r.Memory.Err = errors.New("4 MiB is too low; ulimit -l") },
			"RDMA devices|locked memory|failure", "4 MiB", "ulimit -l", false, 0},
		{"no provider opens", all, func(r *rig) {
			onlyHard(r)
			r.Providers[0].Missing = func() error { return errors.New("no library; install it") }
			r.rdma.open = errors.New("no library")
		}, "This machine|provider hard|failure", "no library", "install it; or: -o rdma=soft", false, 0},
		{"one provider opens", all, func(r *rig) {
			r.Providers[0].Missing = func() error { return errors.New("no library; install it") }
			r.rdma.open = errors.New("no library")
		}, "This machine|provider hard|skipped", "no library", "", true, 1},
		{"one way cannot be opened", all, func(r *rig) { r.rdma.open = errors.New("no device on the route; add one") },
			"rdma/hard to 10.99.0.3:20049|connection|skipped", "no device", "", true, 1},
		{"one way cannot be opened, the other refuses", all, func(r *rig) { r.rdma.open, r.soft.connect = errors.New("no device"), errRefused },
			"rdma/soft to 10.99.0.3:20049|connection|failure", "refused", "tcp answers", false, 0},
		{"the only way cannot be opened", all, func(r *rig) { onlyHard(r); r.rdma.open = errors.New("no device on the route; add one") },
			"rdma/hard to 10.99.0.3:20049|connection|failure", "no device",
			"add one; or: rdma/soft answers on port 20049: rdmafs mount server:/export MOUNTPOINT -o soft,proto=rdma/soft", false, 0},
		{"unknown name", all, func(r *rig) {
			r.Resolve = func(context.Context) ([]netip.Addr, error) { return nil, errors.New("no such host") }
		}, "The way to server|name|failure", "no such host", "/etc/hosts", false, 0},
		{"name without address", all, func(r *rig) {
			r.Resolve = func(context.Context) ([]netip.Addr, error) { return nil, nil }
		}, "The way to server|name|failure", "no address", "", false, 0},
		{"no route", all, func(r *rig) {
			r.Route = func(netip.Addr) (rdmadev.Route, error) { return rdmadev.Route{}, errors.New("network is unreachable") }
		}, "The way to server|route|failure", "unreachable", "ip route", false, 0},
		{"no device there", all, func(r *rig) { elsewhere(r, "eth7") },
			"The way to server|device on route|skipped", "no RDMA device stands on eth7", "", true, 1},
		{"no device there, and needed", all, func(r *rig) { onlyHard(r); elsewhere(r, "eth7") },
			"The way to server|device on route|failure", "eth7", "rdma link add", false, 0},
		{"no GID", all, func(r *rig) {
			r.Route = func(netip.Addr) (rdmadev.Route, error) {
				return rdmadev.Route{Netdev: "eth0", Source: netip.MustParseAddr("10.99.0.9")}, nil
			}
		}, "The way to server|device on route|warning", "no RoCE v2 GID of 10.99.0.9", "RoCE v2", true, 1},
		{"one way refuses", all, func(r *rig) { r.rdma.connect = errRefused },
			"rdma/hard to 10.99.0.3:20049|connection|warning", "mount takes rdma/soft", "", true, 1},
		{"all ways refuse", all, func(r *rig) { r.rdma.connect, r.soft.connect, r.tcp.connect = errRefused, errRefused, errRefused },
			"rdma/hard to 10.99.0.3:20049|connection|failure", "refused", "", false, 0},
		{"nothing but TCP", all, func(r *rig) { r.rdma.connect, r.soft.connect = errRefused, errRefused },
			"rdma/hard to 10.99.0.3:20049|connection|failure", "refused",
			"rdmafs mount server:/export MOUNTPOINT -o soft,proto=tcp", false, 0},
		{"nothing but TCP, and admitted", all, func(r *rig) { r.rdma.connect, r.soft.connect = errRefused, errRefused },
			"The export /export|admission|ok", "over tcp", "", false, 0},
		{"no TCP", all, func(r *rig) { r.tcp.connect = errRefused },
			"Other ways|tcp:20049|warning", "mount does not need it", "", true, 1},
		{"other way without provider", all, func(r *rig) { r.tcp.open = errors.New("no library") },
			"Other ways|tcp:20049|skipped", "no library", "", true, 1},
		{"no RPC", all, func(r *rig) { r.rdma.call, r.soft.call = errors.New("garbage"), errors.New("garbage") },
			softWay + "|NULL call|failure", "garbage", "port", false, 0},
		{"silent about versions", all, func(r *rig) { r.rdma.versions = errors.New("hung up") },
			hardWay + "|RPC-over-RDMA|skipped", "hung up", "", true, 1},
		{"no private data", all, func(r *rig) { r.rdma.terms.Told = false }, hardWay + "|private data|ok", "none", "", true, 1},
		{"no windows", all, func(r *rig) {}, hardWay + "|private data|ok", "no remote invalidation", "", true, 1},
		{"remote invalidation offered", all, func(r *rig) { r.rdma.terms.OfferInvalidate = true },
			hardWay + "|private data|ok", "remote invalidation offered", "", true, 1},
		{"remote invalidation agreed", all, func(r *rig) { r.rdma.terms.OfferInvalidate, r.rdma.terms.AgreeInvalidate = true, true },
			hardWay + "|private data|ok", "remote invalidation agreed", "", true, 1},
		{"no export list", all, func(r *rig) {
			r.Exports = func(context.Context, netip.Addr) ([]Export, error) { return nil, errors.New("kept secret; ask") }
		}, "The export /export|export list|warning", "kept secret", "ask", true, 1},
		{"nothing exported", all, func(r *rig) {
			r.Exports = func(context.Context, netip.Addr) ([]Export, error) { return nil, nil }
		}, "The export /export|export list|warning", "exports nothing", "exportfs", true, 1},
		{"not admitted", all, func(r *rig) { r.rdma.mount = errors.New("permission denied; insecure") },
			"The export /export|admission|failure", "permission denied", "insecure", false, 0},
		{"the trial fails", all, func(r *rig) { r.trial = errors.New("fusermount3 says no") },
			"Mount|trial mount|failure", "fusermount3 says no", "", false, 1},
		{"proto=tcp needs no device", nil, func(r *rig) {
			r.RDMA = false
			r.Ways = []Way{r.tcp.way("tcp", true), r.rdma.way("rdma/hard", false)}
			r.rdma.connect = errRefused
		}, "Other ways|rdma/hard:20049|warning", "refused", "", true, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, c.trees...)
			c.change(r)
			report := r.examine(t)
			parts := strings.Split(c.step, "|")
			st := find(t, report, parts[0], parts[1])
			if string(st.Status) != parts[2] || !strings.Contains(st.Detail, c.says) || !strings.Contains(st.Remedy, c.remedy) {
				t.Errorf("%+v, want status %s, %q and %q", st, parts[2], c.says, c.remedy)
			}
			if report.OK != c.ok || r.trials != c.trials {
				t.Errorf("ok %v after %d trials, want %v and %d: %s", report.OK, r.trials, c.ok, c.trials, report.Verdict)
			}
		})
	}
}

// onlyHard leaves nothing but the provider for devices.
func onlyHard(r *rig) {
	r.Providers[1].Chosen = false
	r.Ways = []Way{r.rdma.way("rdma/hard", true), r.soft.way("rdma/soft", false), r.tcp.way("tcp", false)}
}

func elsewhere(r *rig, netdev string) {
	r.Route = func(netip.Addr) (rdmadev.Route, error) { return rdmadev.Route{Netdev: netdev, Source: server}, nil }
}

// TestSecondAddress: a way goes on to the next address when one does not answer.
func TestSecondAddress(t *testing.T) {
	r := newRig(t)
	r.rdma.dead = server
	if report := r.examine(t); !report.OK || r.rdma.connected != standby || r.soft.connected != server {
		t.Errorf("connected to %v and %v: %s", r.rdma.connected, r.soft.connected, report.Verdict)
	}
}

// TestTargets: less is examined where less is named.
func TestTargets(t *testing.T) {
	r := newRig(t)
	r.Target, r.Export = "server", ""
	report := r.examine(t)
	if find(t, report, "Exports of server", "export list"); !report.OK || r.trials != 0 {
		t.Errorf("a server alone: %v, %d trials", report.OK, r.trials)
	}
	r = newRig(t)
	r.Target, r.Export, r.Host = "", "", ""
	report = r.examine(t)
	if !report.OK || len(report.Sections) != 2 || !r.rdma.untouched() {
		t.Errorf("nothing: %q", lines(report))
	}
}

func (w *fakeWay) untouched() bool { return !w.connected.IsValid() }

func TestSummarize(t *testing.T) {
	ms := func(n ...int) []time.Duration {
		var d []time.Duration
		for _, x := range n {
			d = append(d, time.Duration(x)*time.Millisecond)
		}
		return d
	}
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = 100 - i
	}
	for _, c := range []struct{ in, want []time.Duration }{
		{ms(7), ms(7, 7, 7)},
		{ms(3, 1, 2), ms(1, 2, 3)},
		{ms(4, 3, 2, 1), ms(1, 2, 4)},
		{ms(hundred...), ms(1, 50, 99)},
	} {
		got := summarize(c.in)
		if want := (Times{len(c.in), c.want[0], c.want[1], c.want[2]}); *got != want {
			t.Errorf("%+v, want %+v", *got, want)
		}
	}
}

// TestKerberosSection: what a mount with Kerberos lacks keeps it from succeeding, and has its
// remedy; other mounts have no such section.
func TestKerberosSection(t *testing.T) {
	r := newRig(t, rdmadevtest.RXE)
	for _, l := range lines(r.examine(t)) {
		if strings.HasPrefix(l, "Kerberos") {
			t.Errorf("%s, without Kerberos", l)
		}
	}
	r.Kerberos = func(context.Context) []Finding {
		return []Finding{{Name: "realm", Detail: "A.LAN"}, {Name: "keytab", Detail: "it is there", Warning: "chmod 600 it"}, {Name: "clock", Err: errors.New("ten minutes; set it")}}
	}
	report := r.examine(t)
	got := lines(report)
	if !slices.Contains(got, "Kerberos|realm|ok") || !slices.Contains(got, "Kerberos|keytab|warning") || !slices.Contains(got, "Kerberos|clock|failure") || report.OK || !strings.Contains(report.Verdict, "ten minutes") {
		t.Errorf("%q, %s", got, report.Verdict)
	}
}
