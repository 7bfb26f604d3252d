package status

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/rdmafs/rdmafs/internal/plain"
	"github.com/rdmafs/rdmafs/transport"
)

// TestPlainReports: whatever a daemon says of itself, a terminal gets nothing
// but text, and as many lines as of another.
func TestPlainReports(t *testing.T) {
	const evil = "\x1b]0;owned\x07\r\n\u009b2J\x7f\u202eevil\xff"
	print := func(r Report) string {
		var b bytes.Buffer
		if err := errors.Join(PrintReport(&b, r), PrintInForce(&b, r.InForce), plain.WriteJSON(&b, r)); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	say := func(s string) Report {
		return Report{InForce: InForce{Source: s, MountPoint: s, Transport: s, Server: s, Device: s, Keys: s, Version: s, Note: s, FUSE: s}}
	}
	shown := print(say(evil))
	if at := strings.IndexFunc(shown, func(r rune) bool { return r != '\n' && !unicode.IsGraphic(r) || r == unicode.ReplacementChar }); at >= 0 {
		t.Errorf("shows %q", shown[at:])
	}
	if got, want := strings.Count(shown, "\n"), strings.Count(print(say("x")), "\n"); got != want {
		t.Errorf("%d lines instead of %d", got, want)
	}
}

// TestKeys: every key of the JSON is lower_snake_case, as in the doctor's.
func TestKeys(t *testing.T) {
	terms := transport.Terms{Version: 2, ReceiveSize: 1, PeerReceiveSize: 1, Backward: "none", PeerBackward: "none"}
	r := Report{
		InForce: InForce{Device: "d", Keys: "window", RDMA: &terms, LoweredMTU: 1, Note: "n"},
		Calls:   transport.Stats{Terms: terms},
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
	if fields := 19 + 23 + 1 + 2*7; len(keys) < fields {
		t.Errorf("%d keys of at least %d", len(keys), fields)
	}
	var again Report
	if err := json.Unmarshal(b.Bytes(), &again); err != nil || !reflect.DeepEqual(again, r) {
		t.Errorf("%+v became %+v, %v", r, again, err)
	}
}
