# make demo and make test each do all their own set-up on a fresh Debian machine.
# Go's own cache makes repeated builds cheap, so nothing here tracks files.

GO      ?= go
BIN     := bin
GUEST   := test/knfsd/guest
KNFSD_TESTS ?= .
# Run as a tool of its own, so that it is no dependency of the module.
STATICCHECK := $(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2
# Stamps the commit and the version that follows from its tag, where there is a
# repository that git may read.
BUILD   = $(GO) build -trimpath -buildvcs=$(shell git rev-parse HEAD >/dev/null 2>&1 && echo true || echo false)
# Prints failures whole and skipped tests with their reason, and counts.
REPORT  := $(GO) run ./test/report
# RDMA adapters need cgo and rdma-core's headers at build time. Looked up anew by
# each recipe, as setup may have installed them.
export CGO_ENABLED ?= $(shell command -v gcc >/dev/null && test -e /usr/include/infiniband/verbs.h && \
	test -e /usr/include/rdma/rdma_cma.h && echo 1 || echo 0)

.PHONY: all build setup demo test test-all test-race torture test-programs test-knfsd install uninstall package test-packages bench bench-scale bench-copy bench-knfsd check fuzz clean

all: build

build:
	$(BUILD) -o $(BIN)/rdmafs ./cmd/rdmafs
	$(BUILD) -o $(BIN)/rdmafs-nfsd ./test/nfsd/cmd/rdmafs-nfsd

# The program, manual pages, completion, helpers of mount(8) and units below
# DESTDIR; PREFIX is /usr/local. "make build" is first, perhaps by another user.
install:
	@packaging/install

uninstall:
	@packaging/install -r

# deb and rpm in dist/, with and without cgo; NFPM=PROGRAM for one that is installed.
package:
	@packaging/build dist

# The packages made, examined, installed, used and removed; as root.
test-packages:
	@packaging/setup
	@packaging/test

# fusermount3 for ordinary users, what a build with RDMA adapters needs, fio and
# the rest for tests. Only root can install; others are told what is missing.
setup:
	@test/setup

demo: setup build
	@test/demo/run

# Unit tests, suites, fuzz seeds, and mounts of the embedded server, both as root
# and as an ordinary user.
test: setup build
	$(GO) test -json -count=1 -timeout 30m ./... | $(REPORT)

# What CI has no time for, too: every script on each way to the Linux server.
test-all: export RDMAFS_TEST_ALL := 1
test-all: test test-programs test-knfsd

test-race:
	CGO_ENABLED=1 RDMAFS_TEST_RACE=1 $(GO) test -race -timeout 90m ./...

# Mounts under faults, held to a model. TORTURE=10m for less than an hour,
# TORTURE_SEED=n to repeat a run, TORTURE_CELLS=regexp to choose fault/transport/kind,
# each once if TORTURE is not given, TORTURE_LONG=1 for the long faults of an hour's run,
# TORTURE_VERS=4.1 for other versions of NFS than 3 and 4.2, TORTURE_WORDS=fuse=ring or other
# mount options for every mount.
torture: setup build
	$(GO) build -o $(BIN)/torture ./test/torture/cmd/torture
	@$(BIN)/torture $${TORTURE:+-for $$TORTURE} -seed $${TORTURE_SEED:-0} -cells "$${TORTURE_CELLS:-}" $${TORTURE_LONG:+-long} $${TORTURE_VERS:+-vers $$TORTURE_VERS}

# Everyday programs on two mounts of the embedded server; PROGRAMS="-quick", names of files in
# test/programs/check, or -source SERVER:/EXPORT -words OPTIONS for another server.
test-programs: setup build
	@test/programs/setup $(PROGRAMS)
	@test/programs/run $(PROGRAMS)

# The real Linux server and client, in qemu, one guest at a time.
test-knfsd: setup build
	@$(GUEST)/setup
	@test -z "$$RDMAFS_TEST_ALL" || test/programs/setup
	@GO='$(GO)' test/knfsd/run '$(KNFSD_TESTS)'

# Mounts side by side; BENCHFLAGS='-against DIR' compares with the build in DIR.
bench: setup build
	@test/bench/run $(BENCHFLAGS)

# How rdmafs grows with threads, connections, files in a directory and cached inodes;
# BENCHFLAGS='-systems tcp -files 1000000' for another transport, and more files.
bench-scale: setup build
	@test/bench/run -scale $(BENCHFLAGS)

# rdmafs cp beside cp on a mount, and libnfs' nfs-cp; ROUNDS, SIZE and FILES as test/bench/copy/run has them.
bench-copy: setup build
	@test/bench/copy/run

# rdmafs beside the kernel's NFS client, in qemu; writes docs/performance.md.
bench-knfsd: setup
	@$(GUEST)/setup
	$(GO) run ./test/bench/knfsd $(BENCHFLAGS)

check:
	@test -z "$$(gofmt -l .)" || { gofmt -l .; exit 1; }
	$(GO) vet ./...
	$(GO) vet -tags knfsd ./...
	$(GO) vet -tags guest ./...
	$(STATICCHECK) ./...
	$(STATICCHECK) -tags knfsd ./test/knfsd/... ./nfsclient/nfstest
	$(STATICCHECK) -tags guest ./test/knfsd/...
	$(GO) build -C test/checklocks -o $(CURDIR)/$(BIN)/checklocks .
	$(GO) test -C test/checklocks .
	$(GO) vet -vettool=$(CURDIR)/$(BIN)/checklocks ./...
	@test/imports
	$(GO) mod tidy -diff
	@test/vulnerabilities

# A short search for new inputs with each fuzz target; FUZZTIME=10m for a long one.
fuzz:
	@test/fuzz $${FUZZTIME:-10s}

clean:
	rm -rf $(BIN) bench-out dist
