package providers

import (
	"slices"
	"testing"

	"github.com/rdmafs/rdmafs/internal/options"
)

// TestOptionsNameTheProviders: rdma= takes the names of all providers, and no
// others.
func TestOptionsNameTheProviders(t *testing.T) {
	var names []string
	for _, p := range All {
		names = append(names, p.Name)
	}
	if !slices.Equal(names, options.Providers) {
		t.Errorf("the providers are %q, and rdma= takes %q", names, options.Providers)
	}
}
