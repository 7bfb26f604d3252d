package privilege

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// MayMount reports whether this process can call mount(2) itself.
func MayMount() bool { return has(unix.CAP_SYS_ADMIN) && owns("mnt") }

// MayBindReserved reports whether this process can use ports below 1024, which
// NFS servers without the export option "insecure" demand over TCP.
func MayBindReserved() bool { return has(unix.CAP_NET_BIND_SERVICE) && owns("net") }

// MayLockMemory reports whether this process may lock memory without limit. Only
// capabilities over the whole machine count.
func MayLockMemory() bool { return has(unix.CAP_IPC_LOCK) && initialUser() }

func has(capability int) bool {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData // 64 bits in two halves
	if unix.Capget(&hdr, &data[0]) != nil {
		return false
	}
	return data[capability/32].Effective&(1<<(capability%32)) != 0
}

// owns reports whether capabilities of this process's user namespace hold for its
// namespace of a kind, "mnt" or "net": it, or one below it, has made that namespace
// (user_namespaces(7)). "unshare -Ur" makes a process that has every capability, and none
// over the network that it uses. It is true where the kernel cannot tell.
func owns(kind string) bool {
	f, err := os.Open("/proc/thread-self/ns/" + kind)
	if err != nil {
		return true
	}
	defer f.Close()
	owner, err := unix.IoctlRetInt(int(f.Fd()), unix.NS_GET_USERNS)
	if err != nil {
		return !errors.Is(err, unix.EPERM) // the owner is above this process's user namespace
	}
	unix.Close(owner)
	return true
}

// initialUser reports whether this process is in the user namespace that the
// machine began with. Its number is fixed (PROC_USER_INIT_INO of linux/proc_ns.h).
func initialUser() bool {
	const initial = "user:[4026531837]"
	name, err := os.Readlink("/proc/self/ns/user")
	return err != nil || name == initial
}

// HelperObstacle says why a program with the set-user-ID bit, fusermount3, gains
// nothing when this process starts it; "" if it does.
func HelperObstacle() string {
	const set = 1
	if v, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err == nil && v == set {
		return "fusermount3 gains no privileges here: no_new_privs is set, as by NoNewPrivileges= of a service or no-new-privileges of a container"
	}
	if v, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, unix.CAP_SYS_ADMIN, 0, 0, 0); err == nil && v != set {
		return "fusermount3 gains no CAP_SYS_ADMIN here: give it to the container"
	}
	if !owns("mnt") {
		return "fusermount3 gains no privileges here: this user namespace has no mount namespace of its own (make one: unshare -Urm)"
	}
	return ""
}
