package metrics

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const packaging = "../../packaging"

// collected are the names of the metrics, as Prometheus stores them.
func collected(t *testing.T) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	for line := range strings.Lines(scrape(t, Mount{"server:/export", "/mnt", report()})) {
		if name := regexp.MustCompile(`^rdmafs_\w+`).FindString(line); name != "" {
			names[name] = true
		}
	}
	return names
}

// TestRules: the alerts name metrics that there are, and pass promtool's checks and tests where it is installed.
func TestRules(t *testing.T) {
	rules := filepath.Join(packaging, "prometheus", "rdmafs.rules.yml")
	b, err := os.ReadFile(rules)
	if err != nil {
		t.Fatal(err)
	}
	checkNames(t, regexp.MustCompile(`(?m)^ +expr: .*$`).FindAllString(string(b), -1), 7)
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skipf("promtool (package prometheus) is not installed: the rules are not parsed: %v", err)
	}
	for _, args := range [][]string{{"check", "rules", "rdmafs.rules.yml"}, {"test", "rules", "rdmafs.rules.test.yml"}} {
		cmd := exec.Command(tool, args...)
		cmd.Dir = filepath.Dir(rules)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
}

// TestDashboard: it is JSON, each panel asks for metrics that there are, and, where promtool is installed, in expressions
// that parse.
func TestDashboard(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(packaging, "grafana", "rdmafs.json"))
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(b, &board); err != nil {
		t.Fatal(err)
	}
	var all []string
	var rules strings.Builder
	rules.WriteString("groups:\n- name: panels\n  rules:\n")
	for _, p := range board.Panels {
		if len(p.Targets) == 0 {
			t.Errorf("panel %q asks for nothing", p.Title)
		}
		for _, target := range p.Targets {
			all = append(all, target.Expr)
			expr, _ := json.Marshal(strings.NewReplacer("$__rate_interval", "5m").Replace(target.Expr))
			rules.WriteString("  - record: panel:x" + strings.Repeat("x", len(all)) + "\n    expr: " + string(expr) + "\n")
		}
	}
	checkNames(t, all, 14)
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skipf("promtool (package prometheus) is not installed: the expressions are not parsed: %v", err)
	}
	file := filepath.Join(t.TempDir(), "panels.yml")
	if err := os.WriteFile(file, []byte(rules.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(tool, "check", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("promtool: %v: %s", err, out)
	}
}

// checkNames checks that expressions, of which there are some at least, name metrics that are collected.
func checkNames(t *testing.T, exprs []string, least int) {
	t.Helper()
	if len(exprs) < least {
		t.Errorf("%d expressions", len(exprs))
	}
	known := collected(t)
	for _, e := range exprs {
		names := regexp.MustCompile(`rdmafs_\w+`).FindAllString(e, -1)
		if len(names) == 0 {
			t.Errorf("no metric in %s", e)
		}
		for _, name := range names {
			if !known[name] {
				t.Errorf("%s is not collected: %s", name, e)
			}
		}
	}
}
