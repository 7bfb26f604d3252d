package providers

import (
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/internal/options"
	"github.com/rdmafs/rdmafs/transport/rpctls"
)

// TestTLSHD: of tlshd's configuration, what is for clients is taken.
func TestTLSHD(t *testing.T) {
	const conf = `# tlshd.conf
[debug]
loglevel=0
[authenticate]
x509.truststore=/wrong
[authenticate.client]
#x509.truststore=/commented
x509.truststore= /etc/pki/ca.pem
x509.certificate = /etc/pki/cert.pem
x509.private_key=/etc/pki/key.pem
keyrings=nfs
[authenticate.server]
x509.certificate=/wrong
x509.private_key=/wrong
`
	if got, want := parseTLSHD([]byte(conf)), (rpctls.Files{CA: "/etc/pki/ca.pem", Cert: "/etc/pki/cert.pem", Key: "/etc/pki/key.pem"}); got != want {
		t.Errorf("%+v", got)
	}
	if got, err := readTLSHD(t.TempDir() + "/none"); err != nil || got != (rpctls.Files{}) {
		t.Errorf("without the file: %+v, %v", got, err)
	}
	if _, err := readTLSHD(t.TempDir()); err == nil {
		t.Error("a directory was read")
	}
}

func FuzzTLSHD(f *testing.F) {
	f.Add([]byte("[authenticate.client]\nx509.truststore=/a\n[\n=\n]="))
	f.Fuzz(func(t *testing.T, b []byte) {
		if got := parseTLSHD(b); strings.ContainsAny(got.CA+got.Cert+got.Key, "\n") {
			t.Errorf("%+v", got)
		}
	})
}

// TestEncryption: which files and which version the options come to.
func TestEncryption(t *testing.T) {
	for words, want := range map[string]string{
		"tcp":                            "none",
		"tcp,xprtsec=tls,xprtsec_ca=/ca": "3 /ca  ",
		"tcp,xprtsec=tls,xprtsec_ca=/ca,xprtsec_cert=/c,xprtsec_key=/k":           "3 /ca  ",
		"tcp,vers=4.1,xprtsec=mtls,xprtsec_ca=/ca,xprtsec_cert=/c,xprtsec_key=/k": "4 /ca /c /k",
	} {
		o, err := options.Parse([]string{words})
		if err != nil {
			t.Fatal(err)
		}
		c, err := encryption(&o, "server")
		if err != nil {
			t.Errorf("%s: %v", words, err)
			continue
		}
		got := "none"
		if c != nil {
			got = strings.Join([]string{string(rune('0' + c.Version)), c.Files.CA, c.Files.Cert, c.Files.Key}, " ")
			if c.Host != "server" {
				t.Errorf("%s: for %s", words, c.Host)
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", words, got, want)
		}
	}
}
