// Package knfsd boots a real Linux NFS server, over RDMA and TCP, in an
// emulated machine: the peer that the project's clients, and its own server,
// are measured against. No RDMA hardware, no change to the host's kernel, and
// with the user network no root is needed.
//
// # What a guest is
//
// A Debian kernel with user space in one initial RAM disk, run by qemu without
// acceleration. It exports /export by NFS versions 3, 4.0, 4.1 and 4.2, over
// TCP (port 2049), over iWARP by the siw driver and over RoCEv2 by the rxe
// driver (both port 20049), and has rpcbind, MOUNT on port 20048, a lock
// manager on 32803, and the kernel's NFS client with its RDMA transport. Most
// of GNU's everyday tools are there, busybox for the rest, strace and tcpdump.
// Two users exist: root, and tester with uid and gid 1000.
//
// Boot to served takes about 10 seconds, power off less than
// one. The image is built once, in about a minute, by the scripts in guest/:
// they download Debian 12 packages with apt into a cache outside of the tree
// ($XDG_CACHE_HOME/rdmafs/knfsd, or $RDMAFS_KNFSD_CACHE) and compile siw. A
// new kernel package or a changed script makes a new image. guest/setup
// installs the host programs that this needs.
//
// # Use
//
//	g := knfsd.StartTest(t, knfsd.Config{})
//	// a client of ours mounts g.Addr(knfsd.SIW) or g.Addr(knfsd.TCP),
//	// asking g.Addr(knfsd.Mountd) for the file handle of /export
//	sum, err := g.Check(ctx, "sha256sum /export/file")
//	err = g.RestartServer(ctx)
//
// Programs and tests of the module run in the guest too, where the adapters are:
//
//	g := knfsd.StartTest(t, knfsd.Config{RDMA: []knfsd.Service{knfsd.RXE}, MTU: 4200})
//	g.GoTest(t, knfsd.Program{Package: ".../verbs/ibv", Args: []string{"-test.run=Suite"},
//		Env: []string{"RDMAFS_IBV_ADDR=" + g.GuestAddr().String()}}, 5*time.Minute)
//	out, code, err := g.RunProgram(ctx, knfsd.Program{Package: ".../cmd/rdmafs",
//		Args: []string{"devices"}, Wrapper: knfsd.AsTester})
//
// Tests that make sense nowhere else have the build tag guest, which GoTest sets.
// All is built on the host with cgo, so the host's C library must not be newer
// than the guest's, glibc 2.36 (Debian 12). Client and server are then in one
// guest and meet at g.GuestAddr(): the devices are not on its loopback.
//
// Where the server is to lose what it had not written, cut its power:
//
//	g := knfsd.StartTest(t, knfsd.Config{Network: knfsd.Tap, DiskMiB: 256})
//	err := g.PowerCut()
//	err = g.PowerOn(ctx) // the same disk, not served yet
//	err = g.StartServer(ctx)
//
// Clients on the host wait for the server meanwhile. A process that has files of such a mount open
// must not start another one: the child closes them first, which waits too.
//
// Over Slirp every service has a port of its own on 127.0.0.1, while rpcbind
// in the guest answers with the guest's ports: a client must be told the ports
// of NFS and MOUNT. NFS version 4 finds the export at the same path, /export.
//
// For the guest's client to mount a server on the host, use a Tap network and
// run the server in its namespace:
//
//	g := knfsd.StartTest(t, knfsd.Config{Network: knfsd.Tap, NoServer: true,
//		RDMA: []knfsd.Service{knfsd.SIW}})
//	err := g.InNetNS(server.Start) // exec.Cmd, or a function that listens on g.HostAddr()
//	_, err = g.Check(ctx, "mkdir /mnt/a && mount -t nfs -o vers=3,proto=rdma,port=20049,"+
//		"mountproto=tcp,mountport=20048,nolock 10.99.0.1:/export /mnt/a")
//
// A namespace belongs to a thread. Listeners, connections and processes that
// the function passed to InNetNS makes itself are inside; what its goroutines
// make is not. A server that opens sockets later (an RDMA provider that dials,
// callbacks) is best run as a process of its own. By hand, look inside with
// nsenter --net=PATH, PATH from NetNS.
//
// # What the stock driver does
//
// The kernel's siw, as a server, can miss the first message of a connection if
// it arrives together with the connection's acknowledgement, until any further
// segment comes. A client has to live with that, so the stock driver is the
// default; Config.RepairedSIW takes one without the defect. A result says
// which it was.
//
// The RPC-over-RDMA inline threshold of the kernel's server is at least 4096
// bytes (and at most 65536); 1024 bytes can be had of the kernel's client
// only, or by a client that announces no more in its connection request.
//
// # Files and folders
//
//   - config, guest: the interface. boot, machine, qmp: qemu. tap: the Tap
//     network. control: commands. program, gotest: the module's programs and
//     tests in the guest. image: the cache. testing: StartTest.
//   - guest/: build, setup, siw; rootfs/ is copied into the guest; agent runs
//     there; ctl is the language between agent and harness.
//
// # What it owns and refuses
//
// A Guest owns one qemu process, a temporary folder, and with Tap a namespace
// without a name. Stop gives all of it back. If the process that holds the
// Guest dies, the kernel kills qemu and drops the namespace; the temporary
// folder stays. Nothing of the host's network is touched. Configurations that
// make no sense are refused before anything is made, and machines that cannot
// run a guest with ErrUnavailable.
//
// # Goroutines and locks
//
// Start starts two goroutines for a Guest: runMachine, which waits for qemu on
// the thread that started it, and runReader, which reads the agent's frames.
// Stop joins both. The controller's two locks, sending and mu, are never held
// together, and mu is not held while the guest is spoken to.
package knfsd
