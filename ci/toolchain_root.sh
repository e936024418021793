#!/usr/bin/env bash
# Make a Debian root with a shader compiler and the RADV Vulkan driver (or with clang for
# HIP), so that shaders and kernels can be compiled for a GPU that this machine does not have.
#
#   toolchain_root.sh TARGET [trixie|trixie-backports|trixie-hip]
#
# trixie (default)   Mesa of the release; choose a GPU with RADV_FORCE_FAMILY
# trixie-backports   newer Mesa plus mesa-drm-shim; choose a GPU with AMDGPU_GPU_ID
# trixie-hip         no Mesa: clang with AMD's device libraries and the HIP headers
#
# A complete root has TARGET/toolchain-versions.txt with every package and is left as it is.
# The root is made in TARGET.partial and renamed at the end; what an interrupted run left, or
# a root that lacks a package, is made again.
# The mirror is the one of this machine's apt sources; TOOLCHAIN_MIRROR overrides it.
set -euo pipefail

release=trixie
versions_name=toolchain-versions.txt
packages=(
    mesa-vulkan-drivers libvulkan-dev vulkan-tools vulkan-validationlayers
    glslc spirv-tools spirv-headers gcc g++ libc6-dev
)
# clang 17: the newest one in trixie whose device libraries match the headers (HIP 5.7)
hip_packages=(clang-17 rocm-device-libs-17 libamdhip64-dev libc6-dev)
# unpacked without what they depend on: 3 GB of libraries that compiling needs not
hip_headers=(libhipblas-dev librocblas-dev)
headers=()

die() {
    printf 'toolchain_root: %s\n' "$*" >&2
    exit 1
}

say() {
    printf 'toolchain_root: %s\n' "$*" >&2
}

# print "URI SUITE" for every active deb entry, from one-line and deb822 sources
apt_entries() {
    local file
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
        [[ -r $file ]] || continue
        sed -nE 's/^[[:space:]]*deb[[:space:]]+(\[[^]]*\][[:space:]]+)?([^[:space:]]+)[[:space:]]+([^[:space:]]+).*/\2 \3/p' "$file"
    done
    for file in /etc/apt/sources.list.d/*.sources; do
        [[ -r $file ]] || continue
        awk '
            function flush(   i, j, n, m, u, s) {
                if (types ~ /(^| )deb( |$)/ && enabled != "no") {
                    n = split(uris, u, " ")
                    m = split(suites, s, " ")
                    for (i = 1; i <= n; i++) for (j = 1; j <= m; j++) print u[i], s[j]
                }
                types = uris = suites = enabled = ""
            }
            function value(line) { sub(/^[^:]*:[ \t]*/, "", line); return line }
            /^[ \t]*$/             { flush(); next }
            tolower($0) ~ /^types:/   { types = value($0) }
            tolower($0) ~ /^uris:/    { uris = value($0) }
            tolower($0) ~ /^suites:/  { suites = value($0) }
            tolower($0) ~ /^enabled:/ { enabled = tolower(value($0)) }
            END { flush() }
        ' "$file"
    done
}

# the mirror that serves this machine's own Debian release
find_mirror() {
    local codename
    codename=$(. /etc/os-release && [[ ${ID:-} == debian ]] && printf '%s' "${VERSION_CODENAME:-}") ||
        return 1
    # read all of it: an early exit would break the pipe under pipefail
    apt_entries | awk -v suite="$codename" '!found && ($2 == suite || $2 == "stable" || $2 == "testing") { print $1; found = 1 }'
}

# whether the versions file of a root names every package that is wanted now
is_complete() {
    local name
    [[ -s $1 ]] || return 1
    for name in "${packages[@]}" "${headers[@]}"; do
        awk -v name="$name" '$1 == name { found = 1 } END { exit !found }' "$1" || return 1
    done
}

is_ours() {
    [[ -e $1/debootstrap || -e $1/etc/debian_version || -z $(ls -A "$1") ]]
}

remove_root() {
    [[ -e $1 ]] || return 0
    if awk -v dir="$1/" 'index($5, dir) == 1 { found = 1 } END { exit !found }' /proc/self/mountinfo; then
        die "$1 still has something mounted inside: unmount it first"
    fi
    rm -rf --one-file-system -- "$1"
}

in_root() {
    local root=$1
    shift
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
        http_proxy="${http_proxy:-}" https_proxy="${https_proxy:-}" chroot "$root" "$@"
}

choose_packages() {
    case $1 in
    trixie) ;;
    # clang: the code that sets up pipelines runs here, and g++ takes twice the time to compile it
    trixie-backports) packages+=(mesa-drm-shim clang-19) ;;
    trixie-hip)
        packages=("${hip_packages[@]}")
        headers=("${hip_headers[@]}")
        ;;
    *) die "unknown suite $1" ;;
    esac
}

# unpack packages of headers; print "NAME VERSION" of each
unpack_headers() {
    local root=$1
    mkdir "$root/headers"
    in_root "$root" sh -c 'cd /headers && apt-get download -q "$@" >&2 &&
        for deb in *.deb; do dpkg-deb -x "$deb" / && dpkg-deb -W "$deb"; done' sh "${headers[@]}" |
        tr '\t' ' '
    rm -r "$root/headers"
}

# runs in its own mount namespace: the mounts are gone when it ends, however it ends
build() {
    local root=$1 suite=$2 mirror=$3
    local dir
    local extra=()
    choose_packages "$suite"
    debootstrap --variant=minbase "$release" "$root" "$mirror" >&2
    for dir in proc sys dev; do
        mount --rbind "/$dir" "$root/$dir"
    done
    if [[ $suite == trixie-backports ]]; then
        printf 'deb %s %s main\n' "$mirror" "$suite" >"$root/etc/apt/sources.list.d/backports.list"
        extra=(-t "$suite")
    fi
    in_root "$root" apt-get update -q >&2
    in_root "$root" apt-get install -q -y --no-install-recommends "${extra[@]}" "${packages[@]}" >&2
    in_root "$root" apt-get clean
    {
        printf 'suite %s\n' "$suite"
        in_root "$root" dpkg-query -W -f '${Package} ${Version}\n' "${packages[@]}"
        [[ ${#headers[@]} -eq 0 ]] || unpack_headers "$root"
    } >"$root/$versions_name.new"
    mv "$root/$versions_name.new" "$root/$versions_name"
}

main() {
    [[ $# -eq 1 || $# -eq 2 ]] || die "usage: toolchain_root.sh TARGET [trixie|trixie-backports|trixie-hip]"
    local suite=${2:-trixie} target mirror have
    choose_packages "$suite"
    target=$(realpath -m -- "$1")
    [[ $target != / ]] || die "the target can't be /"

    if [[ -s $target/$versions_name ]]; then
        have=$(awk '$1 == "suite" { print $2 }' "$target/$versions_name")
        [[ $have == "$suite" ]] || die "$target holds $have, not $suite: choose another directory"
    fi
    if is_complete "$target/$versions_name"; then
        say "$target is complete"
        cat "$target/$versions_name"
        return
    fi

    [[ $(id -u) -eq 0 ]] || die "must run as root (debootstrap and chroot need it)"
    command -v debootstrap >/dev/null || die "debootstrap is missing: apt-get install debootstrap"
    mirror=${TOOLCHAIN_MIRROR:-$(find_mirror || true)}
    [[ -n $mirror ]] || die "no Debian mirror in this machine's apt sources: set TOOLCHAIN_MIRROR"

    if [[ -e $target ]]; then
        [[ -d $target ]] && is_ours "$target" || die "$target is neither empty nor a root: not touching it"
        say "$target is not complete: making it again"
        remove_root "$target"
    fi
    remove_root "$target.partial"
    mkdir -p -- "$(dirname -- "$target")"
    unshare --mount --propagation private -- "$BASH" "$0" --build "$target.partial" "$suite" "$mirror"
    mv -T -- "$target.partial" "$target"
    cat "$target/$versions_name"
}

if [[ ${1:-} == --build && $# -eq 4 ]]; then
    shift
    build "$@"
else
    main "$@"
fi
