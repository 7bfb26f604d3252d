package doctor

import (
	"strings"
	"testing"
	"time"
)

// TestEncryption: what a connection agreed on is a step, a certificate that ends soon and a key that others may read are
// warnings with a remedy.
func TestEncryption(t *testing.T) {
	for name, c := range map[string]struct {
		left   time.Duration
		key    string
		status []Status
		remedy string
	}{
		"good":        {100 * 24 * time.Hour, "", []Status{OK}, ""},
		"ends soon":   {49 * time.Hour, "", []Status{Warning}, "in 48 hours"},
		"exposed key": {100 * 24 * time.Hour, "/k.pem", []Status{OK, Warning}, "chmod 600 /k.pem"},
	} {
		steps := encryption(&Encryption{What: "TLS 1.3", Until: time.Now().Add(c.left), ExposedKey: c.key})
		for i, s := range steps {
			if i >= len(c.status) || s.Status != c.status[i] || s.Status == Warning && !strings.Contains(s.Remedy, c.remedy) {
				t.Errorf("%s: %+v", name, s)
			}
		}
		if len(steps) != len(c.status) {
			t.Errorf("%s: %d steps", name, len(steps))
		}
	}
	r := newRig(t)
	if find(t, r.examine(t), hardWay, "connection").Status != OK {
		t.Fatal("no connection")
	}
	r = newRig(t)
	r.rdma.encryption = &Encryption{What: "TLS 1.3", Until: time.Now().Add(1000 * time.Hour)}
	if st := find(t, r.examine(t), hardWay, "encryption"); st.Status != OK || st.Detail != "TLS 1.3" {
		t.Errorf("%+v", st)
	}
}
