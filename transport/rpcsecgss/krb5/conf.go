package krb5

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/jcmturner/gokrb5/v8/config"
)

// DefaultConf is where the configuration of Kerberos is unless KRB5_CONFIG says otherwise.
const DefaultConf = "/etc/krb5.conf"

// Conf is the configuration of Kerberos, as of krb5.conf(5).
type Conf struct {
	*config.Config
	// Path is the file that it was read from.
	Path string
	// cacheName is default_ccache_name, if it is set, and kcmSocket where KCM listens.
	cacheName, kcmSocket string
	// resolver asks DNS for KDCs.
	resolver *net.Resolver
}

// ConfPath is the file of the configuration: the first of KRB5_CONFIG that is there, or
// DefaultConf.
func ConfPath(env string) string {
	for _, p := range filepath.SplitList(env) {
		if _, err := os.Stat(p); err == nil {
			return p
		}
	}
	return DefaultConf
}

// LoadConf reads a configuration, and what it includes.
func LoadConf(path string) (*Conf, error) {
	text, err := expand(path, 0)
	if err != nil {
		return nil, err
	}
	var c *config.Config
	if err = guarded(func() (err error) { c, err = config.NewFromString(text); return err }); errors.Is(err, errMalformed) {
		return nil, fmt.Errorf("%s: a section, a brace or a value in it is %w", path, err)
	}
	if c == nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	} // An error with a configuration is that of a directive of Kerberos 4.
	types := []int32{aes256SHA1, aes128SHA1, aes256SHA384, aes128SHA256}
	named := regexp.MustCompile(`(?m)^\s*(permitted|default_tkt|default_tgs)_enctypes\s*=`).MatchString(text)
	for _, list := range []*[]int32{&c.LibDefaults.DefaultTktEnctypeIDs, &c.LibDefaults.DefaultTGSEnctypeIDs} {
		if !named {
			*list = slices.Clone(types)
			continue
		}
		*list = slices.DeleteFunc(*list, func(t int32) bool { return !slices.Contains(types, t) })
		if len(*list) == 0 {
			return nil, fmt.Errorf("%s permits no AES encryption type, and NFS is done with no other here", path)
		}
	}
	if !regexp.MustCompile(`(?m)^\s*dns_lookup_kdc\s*=`).MatchString(text) {
		c.LibDefaults.DNSLookupKDC = true // krb5.conf(5)'s default, which is not the library's
	}
	conf := &Conf{Config: c, Path: path, kcmSocket: defaultKCMSocket, resolver: net.DefaultResolver}
	if m := regexp.MustCompile(`(?m)^\s*default_ccache_name\s*=\s*(\S+)`).FindStringSubmatch(text); m != nil {
		conf.cacheName = m[1]
	}
	if m := regexp.MustCompile(`(?m)^\s*kcm_socket\s*=\s*(\S+)`).FindStringSubmatch(text); m != nil {
		conf.kcmSocket = m[1]
	}
	return conf, nil
}

// The bounds of a configuration.
const (
	maxConf     = 1 << 20
	maxIncludes = 4
)

// included are the files that includedir takes: names of letters, digits, dashes and
// underscores, and those that end in .conf.
var included = regexp.MustCompile(`^[A-Za-z0-9_-]+$|^[^.].*\.conf$`)

// expand reads a file with the text of those that it includes.
func expand(path string, depth int) (string, error) {
	if depth > maxIncludes {
		return "", fmt.Errorf("%s: included from too many files", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxConf+1))
	if err != nil {
		return "", err
	}
	if len(text) > maxConf {
		return "", fmt.Errorf("%s is larger than %d bytes", path, maxConf)
	}
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		word, arg, _ := strings.Cut(strings.TrimSpace(line), " ")
		arg = strings.TrimSpace(arg)
		switch word {
		case "module":
		case "include":
			more, err := expand(arg, depth+1)
			if err != nil {
				return "", err
			}
			b.WriteString(more + "\n")
		case "includedir":
			entries, err := os.ReadDir(arg)
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return "", err
			}
			for _, e := range entries {
				if !included.MatchString(e.Name()) {
					continue
				}
				more, err := expand(filepath.Join(arg, e.Name()), depth+1)
				if err != nil {
					return "", err
				}
				b.WriteString(more + "\n")
			}
		default:
			b.WriteString(line)
		}
		if b.Len() > maxConf {
			return "", fmt.Errorf("%s and what it includes is larger than %d bytes", path, maxConf)
		}
	}
	return b.String(), nil
}

// Realm is that of a host, by [domain_realm], or else the default one, which may be empty.
func (c *Conf) Realm(host string) string {
	if r := c.ResolveRealm(strings.ToLower(host)); r != "" {
		return r
	}
	return c.LibDefaults.DefaultRealm
}
