//go:build knfsd

package interop

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/test/knfsd"
	"github.com/rdmafs/rdmafs/test/mount"
)

// inNamespace is the command that runs rdmafs in the guest's network.
func inNamespace(g *knfsd.Guest) []string { return []string{"nsenter", "--net=" + g.NetNS()} }

func roceWords(string) string {
	return fmt.Sprintf("proto=rdma,rdma=roce,port=%d,mountport=%d", 20049, 20048)
}

// TestMountLinuxServerRoCE mounts the Linux server over rxe, from a host whose
// RDMA is a UDP socket.
func TestMountLinuxServerRoCE(t *testing.T) {
	all := rows{inline: true, read: true, write: true, reply: true}
	for mtu, ways := range map[int][]way{
		1500: {
			{"rxe", "rdma", everyday, all},
			{"rxe-inline1024", "rdma", "inline=1024", all},
			{"rxe-noddp", "rdma", "noddp", rows{inline: true, zero: true, reply: true}},
		},
		4200: {
			{"rxe-4096-nconnect", "rdma", "nconnect=4", all},
		},
	} {
		t.Run(fmt.Sprintf("mtu %d", mtu), func(t *testing.T) {
			g := knfsd.StartTest(t, knfsd.Config{Network: knfsd.Tap, RDMA: []knfsd.Service{knfsd.RXE}, MTU: mtu})
			guest(t, g, "chmod 1777 /export")
			for _, w := range ways {
				t.Run(w.name, func(t *testing.T) {
					if w.name == "rxe-inline1024" || w.name == "rxe-noddp" {
						knfsd.NeedAll(t)
					}
					s := w.run(t, g, g.GuestAddr().String()+":/export", roceWords, inNamespace(g)...)
					if w.rows.write && s.RemoteInvalidations == 0 {
						t.Error("the server invalidated no key")
					}
				})
			}
		})
	}
}

// counts are those of a line of tc -s.
var counts = regexp.MustCompile(`Sent \d+ bytes (\d+) pkt \(dropped (\d+),`)

// netemCounts are the packets that the guest's netem has sent, and dropped.
func netemCounts(t *testing.T, g *knfsd.Guest) (sent, dropped int) {
	t.Helper()
	out := guest(t, g, "tc -s qdisc show dev eth0")
	m := counts.FindStringSubmatch(out)
	if m == nil || !strings.Contains(out, "netem") {
		t.Fatalf("tc says %s", out)
	}
	if _, err := fmt.Sscan(m[1]+" "+m[2], &sent, &dropped); err != nil {
		t.Fatal(err)
	}
	return sent, dropped
}

// TestLossyRoCE mounts the Linux server over rxe through a network that loses,
// doubles, reorders and delays what the server sends.
func TestLossyRoCE(t *testing.T) {
	g := knfsd.StartTest(t, knfsd.Config{Network: knfsd.Tap, RDMA: []knfsd.Service{knfsd.RXE}})
	guest(t, g, "chmod 1777 /export && modprobe sch_netem")
	for _, netem := range []string{
		"loss 0.1%", "loss 1%", "loss 5%",
		"duplicate 2% delay 2ms reorder 98%",
		"loss 1% duplicate 1% delay 20ms",
	} {
		t.Run(netem, func(t *testing.T) {
			m := mount.Mount(t, g.GuestAddr().String()+":/export", mount.Options{Words: roceWords("rdma"), Wrapper: inNamespace(g)})
			endWithGuest(t, g, m)
			guest(t, g, "tc qdisc add dev eth0 root netem limit 100000 "+netem)
			mount.Exercise(t, m.Dir)
			name := filepath.Join(m.Dir, "data")
			b := content(8<<20 + 5)
			if err := os.WriteFile(name, b, 0o644); err != nil {
				t.Fatal(err)
			}
			want := fmt.Sprintf("%x", sha256.Sum256(b))
			if got, _, _ := strings.Cut(guest(t, g, "sha256sum /export/data"), " "); got != want {
				t.Errorf("the guest reads %s, want %s", got, want)
			}
			again := func() {
				if err := mount.DropCache(name); err != nil {
					t.Fatal(err)
				}
				if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, b) {
					t.Fatalf("%d bytes came back, or other content; %v", len(got), err)
				}
			}
			again()
			// A network that has lost nothing is no test of loss.
			lossy := strings.Contains(netem, "loss")
			sent, dropped := netemCounts(t, g)
			for rounds := 0; lossy && dropped == 0 && rounds < 100; rounds++ {
				again()
				sent, dropped = netemCounts(t, g)
			}
			t.Logf("%d packets sent, %d dropped", sent, dropped)
			if sent == 0 || lossy != (dropped > 0) {
				t.Errorf("netem %s has sent %d packets and dropped %d", netem, sent, dropped)
			}
			guest(t, g, "tc qdisc del dev eth0 root && rm /export/data")
			if s := m.Stats(t); s.BadReplies > 0 || s.BadXIDs > 0 {
				t.Errorf("%d bad replies, %d unknown XIDs", s.BadReplies, s.BadXIDs)
			}
			m.Umount(t)
		})
	}
}
