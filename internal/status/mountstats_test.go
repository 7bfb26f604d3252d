package status

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/transport/account"
)

// parsed is an entry as mountstats(8) and nfsiostat(8) of nfs-utils parse it: lines are split at white space, those before the one
// that begins with RPC are of NFS, and those behind "per-op statistics" are a name with a colon and numbers.
type parsed struct {
	fsType, version string
	opts            []string
	nfs             map[string][]string
	rows            map[string][]uint64
	order           []string
}

func parseMountstats(t *testing.T, text string) parsed {
	t.Helper()
	p := parsed{nfs: map[string][]string{}, rows: map[string][]uint64{}}
	rpc, ops := false, false
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case ops:
			name, ok := strings.CutSuffix(words[0], ":")
			if !ok || p.rows[name] != nil {
				t.Fatalf("row %q", line)
			}
			for _, w := range words[1:] {
				n, err := strconv.ParseUint(w, 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				p.rows[name] = append(p.rows[name], n)
			}
			p.order = append(p.order, name)
		case words[0] == "device":
			p.fsType = words[7]
		case words[0] == "opts:":
			p.opts = strings.Split(strings.Join(words[1:], ""), ",")
		case words[0] == "RPC":
			rpc, p.version = true, words[5]
		case words[0] == "per-op":
			ops = rpc
		case !rpc:
			p.nfs[words[0]] = words[1:]
		}
	}
	return p
}

// TestMountstatsOfVersion4: the calls of version 4 are in the rows that Linux has for them, in its order; what it has no row for
// comes behind.
func TestMountstatsOfVersion4(t *testing.T) {
	procedures := []account.Procedure{
		{Program: "NFS", Procedure: "OPEN", Calls: 3, Errors: 1, Resends: 2, Timeouts: 1, BytesSent: 400, BytesReceived: 500,
			Queue: account.Times{SumNS: 6e6}, RTT: account.Times{SumNS: 7e6}, Execution: account.Times{SumNS: 13e6}},
		{Program: "NFS", Procedure: "READ", Calls: 5, BytesReceived: 8192},
		{Program: "NFS", Procedure: "OFFLOAD_STATUS", Calls: 9},
		{Program: "RPCBIND", Procedure: "GETADDR", Calls: 1},
	}
	show := func(version string) parsed {
		var b bytes.Buffer
		r := Report{InForce: InForce{Source: "server:/x", MountPoint: "/mnt", Transport: "tcp", Server: "10.0.0.5:2049", Version: version}, Procedures: procedures}
		if err := PrintMountstats(&b, r); err != nil {
			t.Fatal(err)
		}
		return parseMountstats(t, b.String())
	}
	p := show("4.2")
	if p.fsType != "nfs4" || p.version != "100003/4" || !slices.Contains(p.opts, "vers=4.2") || slices.ContainsFunc(p.opts, func(o string) bool { return strings.HasPrefix(o, "mountaddr") }) {
		t.Errorf("%+v", p)
	}
	if got, want := p.rows["OPEN"], []uint64{3, 5, 1, 400, 500, 6, 7, 13, 1}; !slices.Equal(got, want) {
		t.Errorf("OPEN: %v, want %v", got, want)
	}
	if got := p.rows["READ"]; got[0] != 5 || got[4] != 8192 {
		t.Errorf("READ: %v", got)
	}
	if !slices.Equal(p.order, append(slices.Clone(nfs4Order), "OFFLOAD_STATUS")) {
		t.Errorf("rows %q", p.order)
	}
	for name, row := range p.rows {
		if len(row) != 9 {
			t.Errorf("%s has %d numbers", name, len(row))
		}
	}
	if p = show("3"); p.fsType != "nfs" || p.version != "100003/3" || !slices.Contains(p.opts, "vers=3") || !slices.Contains(p.opts, "mountaddr=10.0.0.5") || p.order[0] != "NULL" || p.order[1] != "GETATTR" {
		t.Errorf("%+v", p)
	}
}
