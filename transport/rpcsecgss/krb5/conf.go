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
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
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
	// fallback: dns_canonicalize_hostname = fallback.
	fallback bool
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

// The sections of a configuration that are looked at.
const (
	libDefaults = "libdefaults"
	realms      = "realms"
	domainRealm = "domain_realm"
)

// LoadConf reads a configuration, and what it includes. What in it is not for NFS, or makes no sense, is as if it were not there, as
// with MIT's library.
func LoadConf(path string) (*Conf, error) {
	text, err := expand(path, 0)
	if err != nil {
		return nil, err
	}
	p, err := parseProfile(text)
	if err != nil {
		return nil, fmt.Errorf("%s, with what it includes: %w", path, err)
	}
	c := config.New()
	l := &c.LibDefaults
	l.DefaultRealm = p.first(libDefaults, "default_realm")
	l.DNSLookupKDC = p.truth(libDefaults, "dns_lookup_kdc", true)
	l.UDPPreferenceLimit = p.number(libDefaults, "udp_preference_limit", l.UDPPreferenceLimit)
	l.TicketLifetime = p.span(libDefaults, "ticket_lifetime", l.TicketLifetime)
	if name := p.first(libDefaults, "default_keytab_name"); name != "" {
		l.DefaultKeytabName = name
	}
	l.DefaultTktEnctypeIDs, l.DefaultTGSEnctypeIDs = p.enctypes("default_tkt_enctypes"), p.enctypes("default_tgs_enctypes")
	if len(l.DefaultTktEnctypeIDs) == 0 || len(l.DefaultTGSEnctypeIDs) == 0 {
		return nil, fmt.Errorf("%s permits no AES encryption type, and NFS is done with no other here", path)
	}
	for _, r := range p.relations {
		name, of := strings.CutPrefix(r.in, realms+"/")
		switch {
		case r.in == domainRealm:
			if domain := strings.ToLower(r.key); c.DomainRealm[domain] == "" {
				c.DomainRealm[domain] = r.value
			}
		case of && r.key == "kdc" && r.value != "":
			i := slices.IndexFunc(c.Realms, func(known config.Realm) bool { return known.Realm == name })
			if i < 0 {
				i = len(c.Realms)
				c.Realms = append(c.Realms, config.Realm{Realm: name})
			}
			c.Realms[i].KDC = append(c.Realms[i].KDC, r.value)
		}
	}
	conf := &Conf{Config: c, Path: path, kcmSocket: defaultKCMSocket, resolver: net.DefaultResolver}
	l.DNSCanonicalizeHostname = p.truth(libDefaults, "dns_canonicalize_hostname", true)
	conf.fallback = strings.EqualFold(p.first(libDefaults, "dns_canonicalize_hostname"), "fallback")
	conf.cacheName = p.first(libDefaults, "default_ccache_name")
	if at := p.first(libDefaults, "kcm_socket"); at != "" {
		conf.kcmSocket = at
	}
	return conf, nil
}

// enctypes are those of a list of [libdefaults] that are AES: its own, if it has any, as far as permitted_enctypes has them, too.
func (p *profile) enctypes(key string) []int32 {
	all := []int32{aes256SHA1, aes128SHA1, aes256SHA384, aes128SHA256}
	if permitted := p.first(libDefaults, "permitted_enctypes"); permitted != "" {
		all = listed(permitted, all)
	}
	if list := p.first(libDefaults, key); list != "" {
		all = listed(list, all)
	}
	return all
}

// listed are those of all that a list names, in its order: DEFAULT and aes are all, and what stands behind a minus is none.
func listed(list string, all []int32) (named []int32) {
	for word := range strings.FieldsFuncSeq(strings.ToLower(list), func(r rune) bool { return r == ' ' || r == '\t' || r == ',' }) {
		word, without := strings.CutPrefix(word, "-")
		types := all
		if word = strings.TrimPrefix(word, "+"); word != "default" && word != "aes" {
			types = []int32{etypeID.EtypeSupported(word)}
		}
		for _, e := range types {
			switch {
			case without:
				named = slices.DeleteFunc(named, func(n int32) bool { return n == e })
			case slices.Contains(all, e) && !slices.Contains(named, e):
				named = append(named, e)
			}
		}
	}
	return named
}

// Canonicalize reports whether a host's name is to be made fully qualified by DNS (dns_canonicalize_hostname): never, always, or, with
// fallback, if it is a short one.
func (c *Conf) Canonicalize(host string) bool {
	if c.fallback {
		return !strings.Contains(strings.TrimSuffix(host, "."), ".")
	}
	return c.LibDefaults.DNSCanonicalizeHostname
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
