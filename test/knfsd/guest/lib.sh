# lib.sh: what build, siw and setup share.  Sourced, never run.

# The metapackage decides which kernel the guest runs.
metapackage=linux-image-6.12-amd64

cache=${RDMAFS_KNFSD_CACHE:-${XDG_CACHE_HOME:-${HOME:?set HOME or RDMAFS_KNFSD_CACHE}/.cache}/rdmafs/knfsd}
debs=$cache/debs

say() { printf 'knfsd guest: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# lines FILE: its lines without comments and blanks.
lines() { sed -e 's/#.*//' -e 's/[[:space:]]*$//' -e '/^$/d' "$1"; }

# Downloads need neither root nor apt's own caches; the user "_apt" could not
# write to the cache directory.
apt_options=(-o Debug::NoLocking=1 -o APT::Sandbox::User= -o APT::Install-Recommends=false)

# own_lists: from here on, and in scripts called from here, use package lists
# below the cache, brought up to date now.  For machines whose own lists are
# missing or too old.
own_lists() {
	mkdir -p "$cache/lists/partial" "$cache/archives/partial"
	use_own_lists
	say "updating package lists in $cache/lists"
	apt-get -qq "${apt_options[@]}" update >&2
}

use_own_lists() {
	export RDMAFS_KNFSD_LISTS=own
	apt_options+=(-o Dir::State::lists="$cache/lists" -o Dir::Cache::archives="$cache/archives"
		-o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=)
}
[ "${RDMAFS_KNFSD_LISTS:-}" != own ] || use_own_lists

# kernel_package: the image package that the metapackage stands for today;
# empty where apt does not know it.
kernel_package() {
	apt-cache "${apt_options[@]}" depends "$metapackage" 2>/dev/null |
		awk '$1 == "Depends:" && $2 ~ /^linux-image-/ { print $2 }' || :
}

# fetch PACKAGE...: bring the current version of each into $debs and print one
# file name a package, in the order given.  apt-get checks a file that is
# there already against its hash and leaves it.
fetch() {
	local empty uris package found
	mkdir -p "$debs"
	(cd "$debs" && apt-get -qq "${apt_options[@]}" download "$@" >&2) || return 1
	# A directory without the files makes --print-uris name them all.
	empty=$(mktemp -d) || return 1
	uris=$(cd "$empty" && apt-get -qq "${apt_options[@]}" download --print-uris "$@")
	rmdir "$empty"
	for package in "$@"; do
		found=$(awk -v p="$package" 'index($2, p "_") == 1 { print $2; exit }' <<<"$uris")
		[ -s "$debs/$found" ] && [ -n "$found" ] || { say "package $package was not downloaded"; return 1; }
		printf '%s\n' "$debs/$found"
	done
}
