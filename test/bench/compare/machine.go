package compare

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Machine is what a run was made on.
type Machine struct {
	Date       string `json:"date"`
	Kernel     string `json:"kernel"`
	Processor  string `json:"processor"`
	Processors int    `json:"processors"`
	MemoryMiB  int    `json:"memory_mib"`
	LoadBefore string `json:"load_before"` // averages of 1, 5 and 15 minutes
	LoadAfter  string `json:"load_after"`
	Rounds     int    `json:"rounds"`
	Store      string `json:"store,omitempty"` // type of the file system that is served
}

// ThisMachine looks at where the run is about to be made.
func ThisMachine(rounds int) *Machine {
	m := &Machine{Date: time.Now().UTC().Format(time.DateOnly), Processors: runtime.NumCPU(), Rounds: rounds, LoadBefore: Load(), Processor: "unknown"}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		m.MemoryMiB = int(uint64(info.Totalram) * uint64(info.Unit) >> 20)
	}
	b, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(b)) {
		if k, v, _ := strings.Cut(line, ":"); strings.TrimSpace(k) == "model name" {
			m.Processor = strings.TrimSpace(v)
			break
		}
	}
	return m
}

// Load is the machine's: what it averages to in the last 1, 5 and 15 minutes.
func Load() string {
	b, _ := os.ReadFile("/proc/loadavg")
	f := strings.Fields(string(b))
	if len(f) < 3 {
		return "unknown"
	}
	return strings.Join(f[:3], " ")
}

func (m *Machine) String() string {
	store := ""
	if m.Store != "" {
		store = ", store on " + m.Store
	}
	return fmt.Sprintf("%s, Linux %s, %d processors (%s), %d MiB of memory%s, load %s before and %s after; medians of %d rounds",
		m.Date, m.Kernel, m.Processors, m.Processor, m.MemoryMiB, store, m.LoadBefore, m.LoadAfter, m.Rounds)
}
