package krb5

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
)

const (
	kdcPort = "88" // RFC 4120 section 7.2.1
	maxKDCs = 16   // of a realm, whoever names them
)

// kdcs returns the addresses of a realm's KDCs in the order in which they are asked: those
// of [realms], or those of DNS (RFC 4120 section 7.2.3.2) if there are none and
// dns_lookup_kdc allows it. network is udp or tcp.
func (c *Conf) kdcs(ctx context.Context, realm, network string) (all []string, err error) {
	for _, r := range c.Realms {
		if r.Realm != realm {
			continue
		}
		for _, k := range r.KDC {
			at, err := kdcAddress(k)
			if err != nil {
				return nil, fmt.Errorf("%s: kdc = %s: %w", c.Path, k, err)
			}
			all = append(all, at)
		}
	}
	if len(all) == 0 && c.LibDefaults.DNSLookupKDC {
		if all, err = c.kdcsByDNS(ctx, realm, network); err != nil {
			return nil, err
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no KDC of %s is known", realm)
	}
	return all[:min(len(all), maxKDCs)], nil
}

// kdcsByDNS are those of the SRV records of a realm, by priority and weight.
func (c *Conf) kdcsByDNS(ctx context.Context, realm, network string) (all []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, streamTimeout)
	defer cancel()
	_, records, err := c.resolver.LookupSRV(ctx, "kerberos", network, realm+".")
	// The resolver drops records with names that are none, and returns the others with an error.
	if err != nil && len(records) == 0 {
		return nil, fmt.Errorf("no KDC of %s is known: %w", realm, err)
	}
	for _, r := range records {
		if host := strings.TrimSuffix(r.Target, "."); host != "" { // RFC 2782: "." says that there is no such service
			all = append(all, net.JoinHostPort(host, strconv.Itoa(int(r.Port))))
		}
	}
	return all, nil
}

// kdcAddress is the value of kdc= with its port.
func kdcAddress(k string) (string, error) {
	if strings.Contains(k, "/") {
		return "", errors.New("KDCs are asked by UDP and TCP only: a name or address, and a port, is needed")
	}
	if bare := strings.Trim(k, "[]"); net.ParseIP(bare) != nil || !strings.Contains(k, ":") {
		return net.JoinHostPort(bare, kdcPort), nil
	}
	if _, _, err := net.SplitHostPort(k); err != nil {
		return "", err
	}
	return k, nil
}
