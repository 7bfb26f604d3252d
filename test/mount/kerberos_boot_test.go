package mount

import (
	"os"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/test/nfsd"
)

// TestKerberosNotThereYet: a mount that is asked for before the realm's KDC answers is made once it does; one whose keytab is not
// there yet, if it was asked to wait.
func TestKerberosNotThereYet(t *testing.T) {
	k := startKerberos(t, nfsd.SecKrb5)
	for name, c := range map[string]struct {
		words, says   string
		before, after func()
	}{
		"no KDC":                {"", "no KDC of", k.r.StopKDC, k.r.StartKDC},
		"no KDC with version 4": {",vers=4.2", "no KDC of", k.r.StopKDC, k.r.StartKDC},
		"no keytab": {",retry=1", "no such file",
			func() { rename(t, k.machine, k.machine+".later") }, func() { rename(t, k.machine+".later", k.machine) }},
	} {
		t.Run(name, func(t *testing.T) {
			c.before()
			source, dir := "localhost:"+k.export, t.TempDir()
			words := k.words("tcp", "sec=krb5,krb5_keytab="+k.machine+",krb5_principal="+machinePrincipal)
			if strings.Contains(c.words, "retry") { // who does not ask to wait is told at once
				checkFailure(t, Command(t, nil, "mount", source, dir, "-o", words), fail, c.says)
			}
			mounted := awaitMount(t, dir)
			cmd, line := mounting(t, source, dir, words+c.words)
			if !strings.Contains(line, c.says) || !strings.Contains(line, "trying") {
				t.Errorf("said %q", line)
			}
			c.after()
			if err := cmd.Wait(); err != nil {
				t.Fatal(err)
			}
			mounted()
			if r := Command(t, nil, "umount", dir); r.Code != 0 {
				t.Error(r.Stderr)
			}
		})
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}
