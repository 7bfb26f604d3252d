package wire

import (
	"bytes"
	"testing"

	"github.com/rdmafs/rdmafs/test/must"
)

// TestCapturedPrivateData reads what the Linux client and server showed at
// connection set-up, over iWARP behind the depths of MPA's enhanced mode and
// over RoCE behind the addresses of RDMA-CM.
func TestCapturedPrivateData(t *testing.T) {
	client := PrivateData{RemoteInvalidate: true, SendSize: 4096, RecvSize: 4096}
	server := PrivateData{SendSize: 4096, RecvSize: 4096}
	for _, c := range []struct {
		name, hex string
		want      PrivateData
	}{
		{"siw client", "00800000f6ab0e1801010303", client},
		{"siw server", "00000080f6ab0e1801000303", server},
		{"rxe client", "0040df68000000000000000000000000" + "0a630003000000000000000000000000" + "0a630002" +
			"f6ab0e18010103030000000000000000", client},
		{"rxe server", "f6ab0e180100030300000000000000000000", server},
	} {
		got, ok := ParsePrivateData(must.Hex(t, c.hex))
		if !ok || got != c.want {
			t.Errorf("%s: got %+v, %v", c.name, got, ok)
		}
	}
	if got := client.Append(nil); !bytes.Equal(got, must.Hex(t, "f6ab0e1801010303")) {
		t.Errorf("client encoded as %x", got)
	}
	if got := server.Append([]byte{9}); !bytes.Equal(got, must.Hex(t, "09f6ab0e1801000303")) {
		t.Errorf("server encoded as %x", got)
	}
}

func TestPrivateDataAbsentOrUnknown(t *testing.T) {
	defaults := PrivateData{SendSize: 1024, RecvSize: 1024}
	whole := must.Hex(t, "00800000f6ab0e1801010303")
	for n := range whole {
		if got, ok := ParsePrivateData(whole[:n]); ok || got != defaults {
			t.Errorf("%d bytes: got %+v, %v", n, got, ok)
		}
	}
	for _, h := range []string{"", "f6ab0e1802010303", "f6ab0e1800010303", "f6ab0e19010103030000"} {
		if got, ok := ParsePrivateData(must.Hex(t, h)); ok || got != defaults {
			t.Errorf("%s: got %+v, %v", h, got, ok)
		}
	}
}

func TestPrivateDataAfterFalseStarts(t *testing.T) {
	// The magic number stands in front of a version not known, then right
	// across a false start, at an offset that is no multiple of four.
	b := must.Hex(t, "f6ab0e1802ffffff"+"f6f6ab0e18"+"01fe00ff")
	got, ok := ParsePrivateData(b)
	if want := (PrivateData{SendSize: 1024, RecvSize: 256 * 1024}); !ok || got != want {
		t.Errorf("got %+v, %v", got, ok)
	}
}

func TestPrivateDataRounds(t *testing.T) {
	for _, c := range []struct{ give, want int }{{0, 1024}, {1024, 1024}, {2047, 1024}, {4097, 4096}, {1 << 20, 256 * 1024}} {
		got, ok := ParsePrivateData(PrivateData{SendSize: c.give, RecvSize: c.give}.Append(nil))
		if !ok || got.SendSize != c.want || got.RecvSize != c.want {
			t.Errorf("%d: got %+v", c.give, got)
		}
	}
}

func FuzzPrivateData(f *testing.F) {
	f.Add([]byte("\x00\x80\x00\x00\xf6\xab\x0e\x18\x01\x01\x03\x03"))
	f.Add([]byte("\xf6\xab\x0e\x18\x02\xf6\xab\x0e\x18\x01\x00\x00\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, ok := ParsePrivateData(b)
		if p.SendSize < MinInline || p.SendSize > MaxInline || p.RecvSize < MinInline || p.RecvSize > MaxInline {
			t.Fatalf("%x: %+v", b, p)
		}
		if ok {
			if again, ok := ParsePrivateData(p.Append(nil)); !ok || again != p {
				t.Fatalf("%+v read back as %+v", p, again)
			}
		}
	})
}
