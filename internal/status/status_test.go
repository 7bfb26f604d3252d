package status

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/rdmafs/rdmafs/internal/plain"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/account"
)

// TestPlainReports: whatever a daemon says of itself, a terminal gets nothing
// but text, and as many lines as of another.
func TestPlainReports(t *testing.T) {
	const evil = "\x1b]0;owned\x07\r\n\u009b2J\x7f\u202eevil\xff"
	print := func(r Report) string {
		var b bytes.Buffer
		if err := errors.Join(PrintReport(&b, r), PrintInForce(&b, r.InForce), PrintState(&b, r.State), PrintRates(&b, r), PrintMountstats(&onlyTabs{&b}, r), plain.WriteJSON(&b, r)); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	say := func(s string) Report {
		return Report{InForce: InForce{Source: s, MountPoint: s, Transport: s, Encryption: s, Server: s, Device: s, Keys: s, Version: s, Note: s, FUSE: s},
			Procedures: []account.Procedure{{Program: s, Procedure: s}}, Requests: map[string]uint64{s: 1},
			State: State{State: s, LastError: s, NFS4: &NFS4{Session: s, ClientID: s, ServerOwner: s, LastRecovery: &Recovery{Why: s}}, Requests: []Request{{Request: s, Path: s, Process: s, PID: 1}}, Calls: []Call{{Procedure: s}}}}
	}
	shown := print(say(evil))
	if at := strings.IndexFunc(shown, func(r rune) bool { return r != '\n' && !unicode.IsGraphic(r) || r == unicode.ReplacementChar }); at >= 0 {
		t.Errorf("shows %q", shown[at:])
	}
	if got, want := strings.Count(shown, "\n"), strings.Count(print(say("x")), "\n"); got != want {
		t.Errorf("%d lines instead of %d", got, want)
	}
}

// TestReportFits: the longest report that a daemon makes of its calls, with every bucket of every procedure in use, and
// as much waiting as it tells of, fits an answer of the control socket, of 1 MiB.
func TestReportFits(t *testing.T) {
	var full account.Times
	var h account.Histogram
	for d := time.Duration(1); d < 2*time.Hour; d += d/32 + 1 {
		h.Add(d)
	}
	full = h.Snapshot()
	for i := range full.Buckets {
		full.Buckets[i].Count = 1e9
	}
	r := Report{}
	for range 50 { // of NFS, MOUNT, NLM and rpcbind those that are called: of version 4 the most
		r.Procedures = append(r.Procedures, account.Procedure{Program: "NFS", Procedure: "READDIRPLUS", Queue: full, RTT: full, Execution: full})
	}
	long := strings.Repeat("x", 128)
	r.State.NFS4 = &NFS4{ServerOwner: long, ServerScope: long, ServerImplementation: long, LastRecovery: &Recovery{Why: long}}
	for range maxWaiting {
		r.State.Requests = append(r.State.Requests, Request{Request: "READ", Path: strings.Repeat("\u202e", maxPath/3), Process: "process"})
		r.State.Calls = append(r.State.Calls, Call{Procedure: "NFS READDIRPLUS"})
	}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(plain.JSON(b)); n > 1<<20 {
		t.Errorf("%d bytes", n)
	}
}

// TestKeys: every key of the JSON is lower_snake_case, as in the doctor's.
func TestKeys(t *testing.T) {
	terms := transport.Terms{Version: 2, ReceiveSize: 1, PeerReceiveSize: 1, Backward: "none", PeerBackward: "none"}
	r := Report{
		InForce: InForce{Device: "d", Keys: "window", RDMA: &terms, LoweredMTU: 1, Note: "n"},
		Calls:   transport.Stats{Terms: terms},
		State:   State{NFS4: &NFS4{ServerOwner: "o", ServerScope: "s", ServerImplementation: "i", LastRecovery: &Recovery{Why: "w"}}},
	}
	var b bytes.Buffer
	if err := plain.WriteJSON(&b, r); err != nil {
		t.Fatal(err)
	}
	snake := regexp.MustCompile(`^[a-z0-9]+(_[a-z0-9]+)*$`)
	keys := regexp.MustCompile(`"([^"]*)":`).FindAllStringSubmatch(b.String(), -1)
	for _, k := range keys {
		if !snake.MatchString(k[1]) {
			t.Errorf("key %q", k[1])
		}
	}
	if fields := 19 + 25 + 1 + 2*7 + 6 + 22; len(keys) < fields {
		t.Errorf("%d keys of at least %d", len(keys), fields)
	}
	var again Report
	if err := json.Unmarshal(b.Bytes(), &again); err != nil || !reflect.DeepEqual(again, r) {
		t.Errorf("%+v became %+v, %v", r, again, err)
	}
}
