package status

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode"

	"github.com/rdmafs/rdmafs/internal/plain"
)

// onlyTabs leaves the tabs out that /proc/self/mountstats has between words.
type onlyTabs struct{ w io.Writer }

func (o *onlyTabs) Write(b []byte) (int, error) {
	_, err := o.w.Write(bytes.ReplaceAll(b, []byte("\t"), nil))
	return len(b), err
}

// FuzzReport: what another user's daemon says of itself reaches a terminal as
// text, with no character that would be obeyed there.
func FuzzReport(f *testing.F) {
	f.Add([]byte(`{"source":"server:/export","mount_point":"/mnt","transport":"tcp","server":"10.0.0.5:2049","version":"3","note":"x"}`))
	f.Add([]byte("{\"Source\":\"\x1b]0;owned\\u0007\",\"MountPoint\":\"\\u202e/tnm\",\"Device\":\"\\u009b2J\",\"Keys\":\"a\\nb\",\"RDMA\":{\"Version\":1}}"))
	f.Add([]byte(`{"calls":{"terms":{"version":2},"calls":18446744073709551615}}`))
	f.Add([]byte(`{"procedures":[{"program":"\u001b[2J","procedure":"\u202e","calls":1,"rtt":{"sum_ns":18446744073709551615,"buckets":[[18446744073709551615,18446744073709551615],[1,2]]}}],"fuse_requests":{"\u009b":1},"state":{"since":"9999-12-31T23:59:59Z","waiting_requests":[{"path":"\u001b","pid":1}]}}`))
	f.Add([]byte(`{"pid":-1,"timeo":1e308,"buffers":9223372036854775807}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r Report
		if json.Unmarshal(b, &r) != nil {
			return
		}
		var out bytes.Buffer
		if err := PrintReport(&out, r); err != nil {
			t.Fatal(err)
		}
		if err := PrintInForce(&out, r.InForce); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(PrintState(&out, r.State), PrintRates(&out, r.Since(&Report{})), PrintRates(&out, r.Since(&r)), PrintMountstats(&onlyTabs{&out}, r)); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(plain.JSON(text))
		if i := strings.IndexFunc(out.String(), func(r rune) bool { return r != '\n' && !unicode.IsGraphic(r) }); i >= 0 {
			t.Errorf("%q is printed for %q", out.String()[i:min(i+8, out.Len())], b)
		}
	})
}
