package privilege

import "golang.org/x/sys/unix"

// MayMount reports whether this process can call mount(2) itself.
func MayMount() bool { return has(unix.CAP_SYS_ADMIN) }

// MayBindReserved reports whether this process can use ports below 1024, which
// NFS servers without the export option "insecure" demand over TCP.
func MayBindReserved() bool { return has(unix.CAP_NET_BIND_SERVICE) }

// MayLockMemory reports whether this process may lock memory without limit.
func MayLockMemory() bool { return has(unix.CAP_IPC_LOCK) }

func has(capability int) bool {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData // 64 bits in two halves
	if unix.Capget(&hdr, &data[0]) != nil {
		return false
	}
	return data[capability/32].Effective&(1<<(capability%32)) != 0
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
	return ""
}
