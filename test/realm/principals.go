package realm

import (
	"os"
	"strings"
	"time"
)

// AddUser adds a principal with a password.
func (r *Realm) AddUser(name, password string) {
	r.t.Helper()
	r.kadmin("addprinc -pw " + password + " " + name)
}

// AddService adds a principal with a random key of each encryption type, all of
// AES if none is given, and writes the keys to a keytab, whose path it returns.
// The types decide those of the tickets' session keys.
func (r *Realm) AddService(name string, etypes ...int32) (keytab string) {
	r.t.Helper()
	var list []string
	for _, e := range etypes {
		list = append(list, AES[e]+":normal")
	}
	salted := ""
	if len(list) > 0 {
		salted = "-e " + strings.Join(list, ",") + " "
	}
	r.kadmin("addprinc " + salted + "-randkey " + name)
	if len(etypes) > 0 {
		// Otherwise the KDC takes it that every service has type 18.
		r.kadmin("setstr " + name + " session_enctypes " + strings.ReplaceAll(strings.Join(list, ","), ":normal", ""))
	}
	keytab = r.Path(strings.ReplaceAll(name, "/", "_") + ".keytab")
	r.kadmin("ktadd -k " + keytab + " -norandkey " + name)
	return keytab
}

// Keytab writes the keys of services to one keytab, whose path it returns.
func (r *Realm) Keytab(name string, services ...string) string {
	r.t.Helper()
	path := r.Path(name)
	r.kadmin("ktadd -k " + path + " -norandkey " + strings.Join(services, " "))
	return path
}

// Rekey gives a service new keys, in its keytab beside the old ones: tickets from
// before are still good.
func (r *Realm) Rekey(name string) {
	r.t.Helper()
	r.kadmin("ktadd -k " + r.Path(strings.ReplaceAll(name, "/", "_")+".keytab") + " " + name)
}

// kadmin runs a query of kadmin.local, which reports some failures in its output
// only.
func (r *Realm) kadmin(query string) {
	r.t.Helper()
	out := r.must("", "kadmin.local", "-r", Name, "-q", query)
	for _, bad := range []string{"while ", "usage:", "Usage:"} {
		if strings.Contains(out, bad) {
			r.t.Fatalf("kadmin.local -q %q: %s", query, out)
		}
	}
}

// Kinit gets a ticket-granting ticket by password into the cache at path, for
// life, or for as long as the realm gives if that is 0.
func (r *Realm) Kinit(user, password, path string, life time.Duration) {
	r.t.Helper()
	args := []string{"-c", "FILE:" + path, user}
	if life > 0 {
		args = append([]string{"-l", life.String()}, args...)
	}
	r.must(password+"\n", "kinit", args...)
}

// Kdestroy removes the cache at path.
func (r *Realm) Kdestroy(path string) {
	r.t.Helper()
	r.must("", "kdestroy", "-c", "FILE:"+path)
}

// Ticket puts a ticket for a service into the cache at path, which has a
// ticket-granting ticket.
func (r *Realm) Ticket(path, service string) {
	r.t.Helper()
	r.must("", "kvno", "-c", "FILE:"+path, service)
}

// Give makes files of the realm readable for another user, as its ccaches must
// be to belong to that user.
func (r *Realm) Give(uid, gid int, paths ...string) {
	r.t.Helper()
	for _, p := range paths {
		if err := os.Chown(p, uid, gid); err != nil {
			r.t.Fatal(err)
		}
	}
}
