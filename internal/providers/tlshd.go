package providers

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/rdmafs/rdmafs/transport/rpctls"
)

// tlshdConf is where the Linux client, whose handshakes tlshd makes, has its certificates: tlshd.conf(5).
const tlshdConf = "/etc/tlshd.conf"

// maxConf bounds what is read of it.
const maxConf = 64 << 10

// readTLSHD takes the files of clients from tlshd's configuration; none if there is no such file.
func readTLSHD(path string) (rpctls.Files, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return rpctls.Files{}, nil
	}
	if err != nil {
		return rpctls.Files{}, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxConf+1))
	switch {
	case err != nil:
		return rpctls.Files{}, err
	case len(b) > maxConf:
		return rpctls.Files{}, errors.New("it is too long")
	}
	return parseTLSHD(b), nil
}

// parseTLSHD takes them from the key file b (GLib's format): groups in brackets, lines of KEY=VALUE, # before comments. What it
// does not know is tlshd's.
func parseTLSHD(b []byte) rpctls.Files {
	var files rpctls.Files
	group := ""
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]") {
			group = line[1 : len(line)-1]
			continue
		}
		key, value, has := strings.Cut(line, "=")
		if !has || group != "authenticate.client" || strings.HasPrefix(line, "#") {
			continue
		}
		switch value = strings.TrimSpace(value); strings.TrimSpace(key) {
		case "x509.truststore":
			files.CA = value
		case "x509.certificate":
			files.Cert = value
		case "x509.private_key":
			files.Key = value
		}
	}
	return files
}
