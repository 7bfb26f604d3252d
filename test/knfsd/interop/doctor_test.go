//go:build knfsd

package interop

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/internal/doctor"
	"github.com/rdmafs/rdmafs/test/knfsd"
)

// inGuest runs rdmafs in the guest.
type inGuest struct {
	*knfsd.Guest
	bin string
}

func (g inGuest) rdmafs(t *testing.T, wrapper []string, args ...string) (output string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	line := append(append(append([]string(nil), wrapper...), g.bin), args...)
	for i := range line {
		line[i] = "'" + line[i] + "'"
	}
	output, code, err := g.Run(ctx, strings.Join(line, " ")+" 2>/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	return output, code
}

// doctor is the doctor's report, whose exit code must agree with it.
func (g inGuest) doctor(t *testing.T, wrapper []string, args ...string) doctor.Report {
	t.Helper()
	out, code := g.rdmafs(t, wrapper, append([]string{"doctor", "--json"}, args...)...)
	var r doctor.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("doctor %q: %v in %q", args, err, out)
	}
	if (code == 0) != r.OK {
		t.Errorf("doctor %q: exit code %d: %s", args, code, r.Verdict)
	}
	return r
}

// steps are the steps of a report by name, those of the same name in order.
func steps(r doctor.Report) map[string][]doctor.Step {
	all := map[string][]doctor.Step{}
	for _, s := range r.Sections {
		for _, st := range s.Steps {
			all[st.Name] = append(all[st.Name], st)
		}
	}
	return all
}

// TestDoctorInGuest: "devices" and "doctor" where there are rxe, siw and
// rdma-core, beside the server.
func TestDoctorInGuest(t *testing.T) {
	g := inGuest{Guest: knfsd.StartTest(t, knfsd.Config{})}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	var err error
	if g.bin, err = g.Install(ctx, knfsd.Program{Package: "github.com/rdmafs/rdmafs/cmd/rdmafs"}); err != nil {
		t.Fatal(err)
	}
	source := g.GuestAddr().String() + ":/export"

	t.Run("devices", func(t *testing.T) {
		out, code := g.rdmafs(t, nil, "devices", "--json")
		var inv doctor.Inventory
		if err := json.Unmarshal([]byte(out), &inv); err != nil || code != 0 {
			t.Fatalf("exit code %d, %v in %q", code, err, out)
		}
		if inv.Absence != nil || len(inv.Devices) != 2 || !inv.Modules.Core || !inv.Modules.Verbs || !inv.Modules.CM {
			t.Fatalf("%+v", inv)
		}
		for i, want := range []struct{ name, driver, kind, gid string }{
			{"rxe0", "rdma_rxe", "CA", "RoCE v2"}, {"siw0", "siw", "RNIC", "IB/RoCE v1"},
		} {
			d := inv.Devices[i]
			if d.Name != want.name || d.Driver != want.driver || d.Kind != want.kind || !d.Software || len(d.Ports) != 1 || len(d.Nodes) != 2 {
				t.Fatalf("%+v", d)
			}
			if p := d.Ports[0]; !p.Active() || p.LinkLayer != "Ethernet" || p.Rate == "" || p.GIDs[0].Type != want.gid || fmt.Sprint(p.Netdevs()) != "[eth0]" {
				t.Errorf("%+v", p)
			}
			// rxe has windows, siw has none.
			if w := d.Windows; w == nil || w.Usable != (want.name == "rxe0") || w.Type2B != w.Usable {
				t.Errorf("windows of %s: %+v, %s", d.Name, w, d.Unknown)
			}
			for _, n := range d.Nodes {
				if !n.Needed || !n.Usable {
					t.Errorf("%+v", n)
				}
			}
		}
		out, _ = g.rdmafs(t, nil, "devices")
		t.Log(out)
	})

	for _, user := range []struct {
		name    string
		wrapper []string
		memlock doctor.Status
		asked   float64 // credits
		more    []string
		own     []string // steps of the version of NFS
		version string
	}{
		{"root", nil, doctor.OK, 128, nil, []string{"client ID", "session", "pseudo root", "path", "openings", "owners"}, "4.2"},
		{"root, version 3", nil, doctor.OK, 128, []string{"-o", "vers=3"}, []string{"export list"}, "3"},
		{"tester", knfsd.AsTester, doctor.Warning, 32, nil, []string{"client ID", "session"}, "4.2"},
	} {
		t.Run("everything there, "+user.name, func(t *testing.T) {
			r := g.doctor(t, user.wrapper, append([]string{source}, user.more...)...)
			if !r.OK {
				t.Fatal(r.Verdict)
			}
			s := steps(r)
			for _, name := range user.own {
				if len(s[name]) == 0 || s[name][0].Status != doctor.OK {
					t.Errorf("%s: %+v", name, s[name])
				}
			}
			for name, want := range map[string]doctor.Status{
				"FUSE": doctor.OK, "provider ibv": doctor.OK, "provider iwarp": doctor.OK, "libraries": doctor.OK,
				"kernel modules": doctor.OK, "rxe0 port 1": doctor.OK, "siw0 port 1": doctor.OK,
				"rxe0 access": doctor.OK, "siw0 access": doctor.OK, "locked memory": user.memlock, "route": doctor.OK,
				"device on route": doctor.OK, "connection": doctor.OK, "NULL call": doctor.OK, "tcp:2049": doctor.OK,
				"admission": doctor.OK, "trial mount": doctor.OK, "locks": doctor.OK,
			} {
				if len(s[name]) == 0 || s[name][0].Status != want {
					t.Errorf("%s: %+v, want %s", name, s[name], want)
				}
			}
			if n := len(s["connection"]); n < 2 {
				t.Errorf("%d ways", n)
			}
			knfsdTerms(t, s, user.asked)
			if at := s["device on route"]; len(at) != 2 || !strings.Contains(at[0].Detail, "rxe0") || !strings.Contains(at[0].Detail, "RoCE v2") {
				t.Errorf("devices on the route: %+v", at)
			}
			if x := s["export list"]; user.version == "3" && !strings.Contains(x[0].Detail, "/export") {
				t.Errorf("%+v", x)
			}
			if x := s["trial mount"]; !strings.Contains(x[0].Detail, "rdma/ibv") || !strings.HasSuffix(x[0].Detail, "NFS version "+user.version) {
				t.Errorf("%+v", x)
			}
			// A file of the doctor's own was locked: rpc.statd runs.
			if x := s["locks"]; len(x) != 1 || !strings.HasPrefix(x[0].Detail, "taken and given back") {
				t.Errorf("%+v", x)
			}
		})
	}

	t.Run("no permission", func(t *testing.T) {
		guest(t, g, "chmod 600 /dev/infiniband/*")
		defer guest(t, g, "chmod 666 /dev/infiniband/*")
		r := g.doctor(t, knfsd.AsTester, source, "-o", "rdma=iwarp")
		access := steps(r)["rxe0 access"]
		if len(access) != 2 || access[0].Status != doctor.Warning || !strings.Contains(access[0].Detail, "permission denied") || !r.OK {
			t.Errorf("%v: %+v", r.Verdict, access)
		}
	})

	// With both devices on one network, the kernel chooses; so only one each.
	for _, dev := range []string{"siw0", "rxe0"} {
		t.Run("over "+dev, func(t *testing.T) {
			if dev == "rxe0" {
				guest(t, g, "rdma link delete siw0")
			}
			out, code := g.rdmafs(t, nil, "doctor", source, "-o", "rdmadev="+dev)
			if code != 0 || !strings.Contains(out, "mounted and unmounted: rdma/ibv") {
				t.Errorf("exit code %d", code)
			}
			t.Log(out)
		})
	}

	t.Run("not exported", func(t *testing.T) {
		guest(t, g, "exportfs -ua")
		defer guest(t, g, "exportfs -ra")
		r := g.doctor(t, nil, source, "-o", "rdma=iwarp")
		if st := steps(r)["admission"]; r.OK || len(st) != 1 || st[0].Status != doctor.Failure {
			t.Errorf("%v: %+v", r.Verdict, st)
		}
	})

	t.Run("server down", func(t *testing.T) {
		guest(t, g, "guest unserve")
		r := g.doctor(t, nil, source, "-o", "rdma=iwarp,timeo=100")
		if st := steps(r)["connection"]; r.OK || st[0].Status != doctor.Failure || st[0].Remedy == "" {
			t.Errorf("%v: %+v", r.Verdict, st)
		}
	})
	if out := guest(t, g, "grep rdmafs /proc/mounts; ls -d /tmp/rdmafs-doctor.* 2>/dev/null; true"); out != "" {
		t.Errorf("the doctor left %s", out)
	}
}

// knfsdTerms checks what the Linux server is known to settle: 4096 bytes inline
// both ways, and 64 credits at most.
func knfsdTerms(t *testing.T, s map[string][]doctor.Step, asked float64) {
	t.Helper()
	if len(s["private data"]) == 0 || len(s["credits"]) == 0 || len(s["RPC-over-RDMA"]) == 0 {
		t.Fatalf("no terms in %+v", s)
	}
	data, _ := s["private data"][0].Facts.(map[string]any)
	if data["private_data"] != true || data["inline_send"] != 4096.0 || data["inline_receive"] != 4096.0 {
		t.Errorf("private data: %+v", s["private data"])
	}
	credits, _ := s["credits"][0].Facts.(map[string]any)
	if credits["credits_asked"] != asked || credits["credits_granted"] != min(asked, 64) {
		t.Errorf("credits: %+v", s["credits"])
	}
	if v := s["RPC-over-RDMA"][0]; v.Status != doctor.OK || v.Detail != "version 1" {
		t.Errorf("versions: %+v", v)
	}
}
