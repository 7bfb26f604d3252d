package session

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/user"
	"strconv"
	"strings"

	"github.com/rdmafs/rdmafs/nfsclient/nfs4"
)

const (
	// idmapFile is where idmapd.conf(5) is.
	idmapFile = "/etc/idmapd.conf"
	// maxIDMap bounds what is read of it.
	maxIDMap = 64 << 10
)

// readIDMap reads what idmapd.conf(5) says of names: Domain, Nobody-User and Nobody-Group. Where it says nothing the names of
// every domain are those of this host's accounts.
func readIDMap(path string, log *slog.Logger) (m nfs4.IDMap) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return m
	}
	var text []byte
	if err == nil {
		text, err = io.ReadAll(io.LimitReader(f, maxIDMap))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		log.Info(fmt.Sprintf("%v: users and groups are told apart without it", err))
		return nfs4.IDMap{}
	}
	values := iniValues(string(text))
	m.Domain = values["general.domain"]
	account := func(name string, id func(string) (string, error)) *uint32 {
		if name == "" {
			return nil
		}
		s, err := id(name)
		n, bad := strconv.ParseUint(s, 10, 32)
		if err = errors.Join(err, bad); err != nil {
			log.Info(fmt.Sprintf("%s: %s: %v", path, name, err))
			return nil
		}
		return new(uint32(n))
	}
	m.NobodyUser = account(values["mapping.nobody-user"], func(name string) (string, error) {
		u, err := user.Lookup(name)
		if err != nil {
			return "", err
		}
		return u.Uid, nil
	})
	m.NobodyGroup = account(values["mapping.nobody-group"], func(name string) (string, error) {
		g, err := user.LookupGroup(name)
		if err != nil {
			return "", err
		}
		return g.Gid, nil
	})
	return m
}

// iniValues are the values of a file of sections, by section and name in lower case, with a dot between. The last of a name holds.
func iniValues(text string) map[string]string {
	values, section := map[string]string{}, ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
		case line[0] == '[':
			section, _, _ = strings.Cut(line[1:], "]")
			section = strings.ToLower(strings.TrimSpace(section))
		default:
			name, value, ok := strings.Cut(line, "=")
			if !ok {
				continue
			}
			// A comment may follow, behind a space.
			for _, mark := range []string{" #", "\t#", " ;", "\t;"} {
				value, _, _ = strings.Cut(value, mark)
			}
			values[section+"."+strings.ToLower(strings.TrimSpace(name))] = strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	return values
}
